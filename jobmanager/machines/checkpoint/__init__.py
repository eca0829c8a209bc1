"""Checkpoints of one job: when one starts, who takes part, when it is complete, what is kept and what is removed."""
