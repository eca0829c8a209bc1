"""What came into a subtask since its last completed checkpoint, on disk: for replaying a failure."""
