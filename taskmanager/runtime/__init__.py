"""The runtime of a subtask: its mailbox loop in one thread, with inputs, outputs, timers and snapshots.

Synchronous: no asyncio, no grpc, no pyspark, and one idle wait only. It drives the machines, operators, state and exchange.
"""
