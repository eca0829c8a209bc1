"""Exchanges of BATCH jobs: what a subtask sends is stored, by Spark's shuffle, until all of it is there."""
