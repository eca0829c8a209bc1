"""The autoscaler, a process beside the cluster as in Flink: it reads metrics and changes the parallelism of jobs by REST."""
