"""The TaskManager process: N slots, a local Spark session, and one Spark partition per subtask."""
