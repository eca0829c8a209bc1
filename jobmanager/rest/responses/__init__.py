"""Views as Flink's JSON."""
