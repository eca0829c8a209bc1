"""Operator state without keys, state files, and the contracts that every snapshot follows.

It touches its own directory and the store it is given, and knows nothing of network or barriers.
"""
