"""State of operators and functions that has no key, files of state, and what every snapshot is made of.

It touches its own directory and the store it is given, and knows nothing of network or barriers.
"""
