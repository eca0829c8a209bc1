"""Windows of functions that take one record."""
