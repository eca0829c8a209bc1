"""From a completed checkpoint to the state that each subtask starts with."""
