"""Patterns of events, and the automaton that matches them (Flink: CEP)."""
