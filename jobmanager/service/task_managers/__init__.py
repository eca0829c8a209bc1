"""The JobManager's side of its TaskManagers: what they report, and what they are sent."""
