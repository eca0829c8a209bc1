"""Converts views to the JSON of Flink's REST API."""
