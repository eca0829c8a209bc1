"""Operator state without keys, state files, and the contracts that every snapshot follows.

The package uses only its own directory and the state store, and does not depend on the network or on barriers.
"""
