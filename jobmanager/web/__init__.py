"""The page at ``/``: its files, what it shows, and the stream of changes that keeps it live. Flink's dashboard below ``/flink/``."""
