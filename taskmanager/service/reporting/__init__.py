"""Metrics of the TaskManager and of its subtasks, and what user code prints."""
