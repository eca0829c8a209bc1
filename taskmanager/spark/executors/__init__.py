"""Requests and checks the executors of a Spark cluster."""
