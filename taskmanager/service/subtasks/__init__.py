"""The processes of subtasks: starts, connects, watches and ends them."""
