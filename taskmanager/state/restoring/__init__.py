"""Restored state that stays in the files of its checkpoint until it is needed or loaded, with one interface for all kinds of state."""
