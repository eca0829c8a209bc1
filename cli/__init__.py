"""The `tidegate` command: click commands, rich for tables and progress; it talks gRPC and REST only.

A user's job directory may hold its own `cli.py`, `jobmanager.py` or `proto/`: processes are therefore started with the job's
directory after ours on the module path (`python -P`, or the console script), never before it.
"""
