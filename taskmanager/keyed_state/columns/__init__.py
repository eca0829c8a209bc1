"""Keyed state as columns, which is read and written for whole batches of keys at once."""
