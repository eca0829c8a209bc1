"""The mailbox of a subtask: one thread, `step()`; input gate, output, timers.

Synchronous: no asyncio, no grpc, no pyspark, and one idle wait only. It drives the machines, operators, state and exchange.
"""
