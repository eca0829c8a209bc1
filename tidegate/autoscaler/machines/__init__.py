"""The decisions of the autoscaler, without I/O: from samples of metrics to parallelisms."""
