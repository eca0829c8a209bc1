"""The services of the TaskManager process, on asyncio: its composition, its gRPC service, the connection to the JobManager, and its subtasks' processes."""
