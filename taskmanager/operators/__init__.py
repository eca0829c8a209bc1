"""Operators: they take batches and emit batches through a context with state, timers and metrics.

No clock, network or files, and nothing of other subtasks.
"""
