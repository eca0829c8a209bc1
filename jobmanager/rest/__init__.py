"""Flink's REST API, answered from the views of the JobManager's machines."""
