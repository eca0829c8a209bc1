"""Examines whether the operators of a program can read their state in a checkpoint, without running the job."""
