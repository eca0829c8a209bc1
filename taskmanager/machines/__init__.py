"""The pure state machines of a TaskManager and its subtasks: lifecycle, barrier alignment, watermarks, credit, snapshots, slots.

Their method ``on(event, now_ms)`` takes an event and returns the commands that the caller has to carry out.
"""
