"""User functions inside operators: their lifecycle, what they emit and raise, and their metrics."""
