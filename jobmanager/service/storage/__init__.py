"""Reads and writes of checkpoint storage and of the archive, in a pool."""
