"""TaskManagers that this JobManager starts: on this machine, or by the client of a scheduler."""
