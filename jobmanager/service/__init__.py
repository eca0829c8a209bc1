"""The asyncio side of the JobManager: the process, its gRPC and REST servers, TaskManager clients, storage and metrics.

It performs all I/O; the state of a machine changes only through `on()`.
"""
