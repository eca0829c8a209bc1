"""Window operators of functions that process one record at a time."""
