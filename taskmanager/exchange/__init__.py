"""Exchanges between subtasks: partitioners, channels and credit-based flow control.

It touches its bounded queues and sockets, and knows neither operator state nor user code.
"""
