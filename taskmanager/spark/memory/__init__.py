"""The memory of subtasks: what bounds it, what there is, and who looks."""
