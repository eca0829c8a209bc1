"""Pure state machines: job, execution, slots, restart, checkpoint trigger, pending, completed, failure, and recovery.

Events in, commands out; `on(event, now_ms) -> Sequence[Command]`.
"""
