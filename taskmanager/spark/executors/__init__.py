"""The executors of a Spark that is a cluster."""
