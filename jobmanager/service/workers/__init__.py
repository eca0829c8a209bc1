"""Starts TaskManagers for the JobManager: on this machine, on a Spark cluster, or by the client of a scheduler."""
