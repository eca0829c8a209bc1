"""Metrics and traces of the JobManager."""
