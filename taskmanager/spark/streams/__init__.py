"""Implements ``from_spark_stream`` and ``to_spark`` in the TaskManager's Spark driver."""
