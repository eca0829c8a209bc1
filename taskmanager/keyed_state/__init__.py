"""Keyed state: its port, and its backends in memory, in RocksDB and as columns, kept by key group.

It touches its own directory and the store it is given, and knows nothing of network or barriers.
"""
