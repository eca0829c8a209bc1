"""Sessions of columns: how their rows look, how they are written, and what changed since the last checkpoint."""
