"""The decisions of the autoscaler: samples in, parallelism out."""
