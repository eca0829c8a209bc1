"""User functions inside operators: their life, what they emit, raise, count and measure."""
