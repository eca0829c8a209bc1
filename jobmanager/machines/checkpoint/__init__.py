"""Checkpoints of one job: when one starts, which subtasks take part, when it is complete, what is retained and what is deleted."""
