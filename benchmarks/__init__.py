"""Benchmarks: each prints ratios against something that runs beside it, in the same run, on the same rows."""
