"""Sorted batches: in memory, and in files of the attempt."""
