"""State of a running subtask that clients ask for."""
