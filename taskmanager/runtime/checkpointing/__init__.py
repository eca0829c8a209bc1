"""A subtask's part in checkpoints: barriers, snapshots, in-flight data and its replay."""
