"""Clusters inside a command: JobManager and TaskManager processes as its children."""
