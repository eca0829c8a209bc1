"""Operator coordinators: what the JobManager decides for the subtasks of one operator together."""
