"""Source operators: splits, watermarks and their alignment."""
