"""Blocking exchange between the subtasks of a BATCH job through Spark's shuffle."""
