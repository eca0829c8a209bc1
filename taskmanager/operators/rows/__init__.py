"""Operators of functions that take one record."""
