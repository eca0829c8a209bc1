"""Operators of windows and sessions that aggregate Arrow batches."""
