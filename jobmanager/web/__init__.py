"""The web page at ``/``: its files, its data, and the stream of changes that keeps it live; Flink's dashboard below ``/flink/``."""
