"""Keys of rows: hashes for routing, codes for grouping, words for comparison."""
