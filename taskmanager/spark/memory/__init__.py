"""Limits and watches the memory of subtasks."""
