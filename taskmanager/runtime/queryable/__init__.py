"""The queryable state of a running subtask."""
