"""Metrics of user functions (PyFlink: ``pyflink.metrics``)."""

from tidegate.metrics.metricbase import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
