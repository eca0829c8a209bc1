"""Evaluation of SQL in a subtask: Arrow kernels with DuckDB's semantics, and DuckDB itself for the rest."""
