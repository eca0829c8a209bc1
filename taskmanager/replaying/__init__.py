"""Replays the failure of a subtask: runs its operators again from their checkpoint, with the same records in the same order."""
