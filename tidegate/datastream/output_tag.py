"""`OutputTag` names a side output and the type of its records (PyFlink: ``pyflink.datastream.output_tag``)."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.functions.output_tag import (
    OutputTag,
)

__all__ = [
    "OutputTag",
]

__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.typeinfo", "RowTypeInfo TypeInformation Types"),
)
