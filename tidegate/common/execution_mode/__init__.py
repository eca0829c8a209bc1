"""The module of ``ExecutionMode``, which Flink 2 has removed (PyFlink 1: ``pyflink.common.execution_mode``)."""

from __future__ import annotations

from tidegate.common.names.finding import finding
from tidegate.common.names.flink_1 import flink_1

__getattr__ = finding(__name__, flink_1(__name__))
