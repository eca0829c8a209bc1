"""Keys in canonical form: which keys are one key."""
