"""The canonical form of keys, which decides whether two keys are equal."""
