"""Keyed state by key group: its interface, and its backends in memory, in RocksDB and as columns.

It touches its own directory and the store it is given, and knows nothing of network or barriers.
"""
