"""Runs the TaskManagers of one Spark application in this process: one TaskManager for each executor, which runs its subtasks."""
