"""What a subtask counts and times."""
