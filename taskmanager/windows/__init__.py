"""Windows: operators over rows, operators over columns, and what they hold."""
