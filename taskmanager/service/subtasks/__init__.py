"""Subtask processes as the TaskManager sees them: started, connected, watched, ended."""
