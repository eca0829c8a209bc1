"""A subtask's part of a checkpoint: barriers, snapshots, data in flight and its replay."""
