"""Keyed state in RocksDB: the backend ``rocksdb``."""
