"""Decides which state is in memory and which is on disk."""
