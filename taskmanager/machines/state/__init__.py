"""Decisions about state: what is in memory, and what is on disk."""
