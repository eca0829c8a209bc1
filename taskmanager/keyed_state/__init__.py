"""Keyed state by key group: its interface, and its backends in memory, in RocksDB and as columns.

The package uses only its own directory and the state store, and does not depend on the network or on barriers.
"""
