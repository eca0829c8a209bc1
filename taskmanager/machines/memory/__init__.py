"""Decides which subtask is ended when memory runs short."""
