"""The module name of PyFlink's ``pyflink.table.model_descriptor``, whose classes are refused."""

from __future__ import annotations

from tidegate.common.config_options import ConfigOption as ConfigOption
from tidegate.common.names.java_only import refusing
from tidegate.table.descriptors import Schema as Schema

_NAMES = "ModelDescriptor"

__all__ = [*_NAMES.split()]

__getattr__ = refusing(__name__, _NAMES, "call the model from a function of yours")
