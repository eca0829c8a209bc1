"""A Spark DataFrame as a bounded source."""
