"""Operators on columns, which never leave Arrow."""
