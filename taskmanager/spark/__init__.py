"""Runs subtasks on Spark: the Spark session, the deployment of a subtask as a Spark job, and the entry point inside the Spark worker. Only this package imports
pyspark.
"""
