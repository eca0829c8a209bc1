"""What survives a JobManager: its jobs, where they stood, and who leads."""
