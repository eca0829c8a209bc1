"""Which subtask ends when memory runs short."""
