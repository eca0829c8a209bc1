"""Wrappers that adapt a program's functions to run in a subtask: data frames, join windows, custom partitioning."""
