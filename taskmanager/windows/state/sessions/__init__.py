"""The state of sessions over columns: the format of their rows, their files, and what changed since the last checkpoint."""
