"""Exchanges between subtasks: partitioners, channels and credit-based flow control.

The package uses bounded queues and sockets, and does not depend on operator state or user code.
"""
