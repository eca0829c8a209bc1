"""Operators: they take batches and emit batches through a context with state, timers and metrics.

Operators use no clock, network or files directly, and do not depend on other subtasks.
"""
