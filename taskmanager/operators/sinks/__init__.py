"""Sinks: writers, and the second phase of the commit."""
