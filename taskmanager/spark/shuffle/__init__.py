"""Spark's shuffle between the subtasks of a BATCH job."""
