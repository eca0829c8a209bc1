"""What the functions of a program are wrapped in to run in a subtask: data frames, windows of joins, custom partitioning."""
