"""Operators that never leave Arrow."""
