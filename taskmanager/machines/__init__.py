"""Pure state machines of the task side: subtask life, barrier alignment, watermarks, credit, snapshot, sink commit.

Events in, commands out; `on(event, now_ms) -> Sequence[Command]`.
"""
