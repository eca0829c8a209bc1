"""Keyed state as columns, for whole batches of keys at once."""
