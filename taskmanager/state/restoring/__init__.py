"""State that was restored and stays in the files of its checkpoint until it is asked for, or loaded: one protocol for all kinds of state."""
