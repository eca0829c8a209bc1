"""Sources: splits, watermarks and their alignment."""
