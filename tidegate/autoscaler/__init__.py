"""Flink's autoscaler beside the cluster: it reads metrics by REST, and changes the parallelism of jobs by REST."""
