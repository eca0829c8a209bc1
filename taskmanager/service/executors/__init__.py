"""TaskManagers on the executors of one Spark application: one for each executor, all in this process."""
