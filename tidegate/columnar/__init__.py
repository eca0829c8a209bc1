"""A columnar library over Arrow and NumPy: keys, grouping, aggregates, tables of rows by key, runs of sorted batches and panes of windows.

A library: it knows nothing of operators, contexts, checkpoints or tidegate's record types, and imports only `tidegate.model` of ours.
"""
