"""Kafka's records by column: requests to brokers over kafka-python's connections, their records as Arrow columns.

fetching     ─▶ a consumer's partitions as columns           transaction ─▶ columns published in a transaction
partitioning ─▶ the partition of each key, as Kafka's Java producer chooses it
"""
