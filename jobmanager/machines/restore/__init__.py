"""Restore: turns a completed checkpoint into the state with which each subtask starts."""
