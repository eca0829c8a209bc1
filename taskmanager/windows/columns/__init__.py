"""Windows and sessions that aggregate Arrow batches."""
