"""Pure state machines of the JobManager: jobs, execution attempts, slots, restarts, checkpoints and recovery.

Each takes one event and returns commands: ``on(event, now_ms) -> Sequence[Command]``.
"""
