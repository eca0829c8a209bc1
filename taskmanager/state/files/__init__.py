"""State files: segments as they are written, copied and read."""
