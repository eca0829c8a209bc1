"""Checkpoint storage: a durable writer for local files, pyarrow.fs for object stores, and a storage in memory.

It knows files and objects under its root, and not who owns a checkpoint.
"""
