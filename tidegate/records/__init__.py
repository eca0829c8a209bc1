"""Records: batches, columns, types, and texts of records."""
