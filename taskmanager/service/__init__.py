"""The asyncio side of the TaskManager: composition root, gRPC servicer, JobManager client, heartbeats."""
