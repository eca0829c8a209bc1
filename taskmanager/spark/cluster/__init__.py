"""What a cluster of Spark is asked for: properties of YARN, resources of tasks, executors that go away."""
