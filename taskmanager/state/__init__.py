"""Keyed and operator state backends and their snapshots, kept by key group.

It touches its own directory and the store it is given, and knows nothing of network or barriers.
"""
