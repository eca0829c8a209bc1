"""Partitioners, channels and credit-based flow control between two subtasks.

It touches its bounded queues and sockets, and knows neither operator state nor user code.
"""
