"""The inputs of a subtask: channels, or a source."""
