"""Checkpoint storage: our own durable writer for local files, pyarrow.fs for object stores, and one in memory.

It knows files and objects under its root, and not who owns a checkpoint.
"""
