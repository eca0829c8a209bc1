"""TaskManagers that are executors of one Spark application: one for each, all in this process."""
