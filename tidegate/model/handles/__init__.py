"""Handles of state: those that hold it themselves, and those of a checkpoint, one by one."""
