"""Where subtasks run and when they run again: the execution graph, slots of a job, failover and restart."""
