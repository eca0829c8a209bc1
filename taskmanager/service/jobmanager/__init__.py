"""The TaskManager's connection to the JobManager: registration, heartbeats, and reports."""
