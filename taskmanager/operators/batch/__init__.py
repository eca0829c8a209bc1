"""BATCH execution mode: operators whose inputs are sorted by key."""
