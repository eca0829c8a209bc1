"""Hashes of keys, by Flink's rules."""
