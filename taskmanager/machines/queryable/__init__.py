"""Limits for clients that query the state of running subtasks."""
