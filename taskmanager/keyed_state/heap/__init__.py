"""Keyed state as Python objects in memory: the backend ``hashmap``."""
