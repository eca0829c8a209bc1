"""The JobManager's connections to TaskManagers: what they report, and what they are sent."""
