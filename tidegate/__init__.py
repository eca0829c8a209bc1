"""tidegate: a JobManager/TaskManager runtime in Python that behaves like Apache Flink's.

This package is what a job imports and what both processes share: the job API (`common`, `datastream`, `connectors`), the
vocabulary (`model`), the messages (`pb`, `wire`), the asyncio shell kit (`aio`) and checkpoint storage (`store`).
"""
