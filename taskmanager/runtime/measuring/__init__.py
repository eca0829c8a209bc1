"""Metrics, busy times, profiles and stack samples of a subtask."""
