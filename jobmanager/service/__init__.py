"""The asyncio side of the JobManager: composition root, gRPC servicer, TaskManager client, journal, metrics.

It touches its inbox, RPC and the journal, and the state of a machine only through `on()`.
"""
