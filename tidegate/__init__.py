"""tidegate: a runtime for streaming jobs in Python, with a JobManager and TaskManagers, that behaves like Apache Flink's.

This package is what a job imports, and what JobManager and TaskManager share: the job API (`common`, `datastream`, `connectors`), the vocabulary
(`model`), the messages (`pb`, `wire`), the asyncio code around I/O (`aio`) and checkpoint storage (`store`).
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
"""Disables gRPC's fork handlers, which would end one in twenty of the children from which PySpark starts its JVM, also during calls. No process of
tidegate uses gRPC after a fork in which it had used it. gRPC reads this variable at its first channel."""
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
"""Limits gRPC's log to errors: otherwise it writes a line to standard error for each failed handshake, with which strangers could fill a log, and
commands report failures themselves. gRPC reads this variable when it is imported."""
