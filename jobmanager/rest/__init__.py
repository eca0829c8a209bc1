"""Flink's REST API and the web UI, read from what the JobManager's machines show."""
