"""Reads and writes checkpoint storage and the archive of jobs, in a thread pool."""
