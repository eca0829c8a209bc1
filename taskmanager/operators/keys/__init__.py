"""Keys of records and columns, and their dense codes."""
