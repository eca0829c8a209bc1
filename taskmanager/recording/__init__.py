"""Records on disk the calls of a subtask since its last completed checkpoint, so that a failure can be replayed."""
