"""The pure state machines of a TaskManager and its subtasks: lifecycle, barrier alignment, watermarks, credit, snapshots, slots.

``on(event, now_ms)`` takes an event and returns the commands that a driver has to carry out.
"""
