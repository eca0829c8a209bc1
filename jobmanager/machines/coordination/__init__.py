"""Operator coordinators: the JobManager's part of an operator, which decides for all its subtasks together."""
