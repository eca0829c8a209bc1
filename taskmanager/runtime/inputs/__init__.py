"""Where the batches of a subtask come from, and in what slices they are processed."""
