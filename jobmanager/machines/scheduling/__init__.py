"""Where and when subtasks run: the execution graph, the slots of a job, failover and restart."""
