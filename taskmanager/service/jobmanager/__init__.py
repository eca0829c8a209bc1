"""The TaskManager's side of the JobManager: registration, heartbeats, and all that it reports."""
