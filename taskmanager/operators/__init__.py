"""Operators: a batch in, batches out, through a Context that offers emit, timers, state and metrics.

No clock, network or files, and nothing of other subtasks.
"""
