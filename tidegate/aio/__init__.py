"""The asyncio shell kit: the driver of a machine, gRPC server and channel, and the settings.

It touches sockets, clock, signals, environment and log setup, and never decides anything about a job or a checkpoint.
"""
