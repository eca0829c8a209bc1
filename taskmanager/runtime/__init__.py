"""The runtime of a subtask: its mailbox loop in one thread, with inputs, outputs, timers and snapshots.

The runtime is synchronous: it uses no asyncio, grpc or pyspark, and waits in one place only. It drives the machines, operators, state and exchange.
"""
