"""Sink operators: writers, and the commits of the second phase."""
