"""Runs a subtask again whose failure was kept: from its checkpoint, with the same records in the same order."""
