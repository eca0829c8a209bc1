"""What a query computes in a subtask: Arrow kernels that mean what DuckDB means, and DuckDB itself for the rest."""
