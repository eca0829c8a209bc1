"""Handlers of Flink's paths, one file for each part of the API."""
