"""High availability: leader election, and the durable state of jobs for the next JobManager."""
