"""Aggregates: their partial columns, sketches, column names, and results."""
