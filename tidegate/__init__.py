"""tidegate: a runtime for streaming jobs in Python, with a JobManager and TaskManagers, that behaves like Apache Flink's.

This package is what a job imports and what both processes share: the job API (`common`, `datastream`, `connectors`), the
vocabulary (`model`), the messages (`pb`, `wire`), the asyncio shell kit (`aio`) and checkpoint storage (`store`).
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
"""PySpark starts its JVM by a fork, also beside calls that are under way, and no process of ours speaks gRPC after a fork that it was in
before. gRPC's handlers of a fork would end one such child in twenty before it is the JVM. It reads this when its first channel is made.
"""
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
"""Else gRPC writes a line to standard error for each connection whose handshake fails: strangers could fill a log, and a command says why itself. It reads this
when it is imported."""
