"""Records: batches, their columns, their types made by name, and their texts."""
