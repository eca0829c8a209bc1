"""Sorted batches: in memory, and in temporary files."""
