"""Blocking exchanges of BATCH jobs: the output of a subtask is stored in Spark's shuffle before its consumers run."""
