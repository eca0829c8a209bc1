"""Kafka's records by column: record batches (message format v2) are parsed and built with numpy and Arrow, never a record at a time.

record_batches ─▶ decode, encode, cut: bytes of the protocol here, Arrow columns there
partitioning   ─▶ the partition of each key, as Kafka's Java producer chooses it
"""
