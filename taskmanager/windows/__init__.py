"""Window operators over rows and over columns, and their state."""
