"""Settings and resources of Spark on a cluster: properties, task resources, YARN, executors that are decommissioned."""
