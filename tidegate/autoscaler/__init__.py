"""The autoscaler, a process outside the cluster as in Flink: it reads metrics and changes the parallelism of jobs by REST."""
