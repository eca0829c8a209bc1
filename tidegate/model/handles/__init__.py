"""Handles of state: those with inline content, and replacement of a checkpoint's handles."""
