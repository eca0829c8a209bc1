"""Patterns of events, and the automaton that finds them (Flink: CEP)."""
