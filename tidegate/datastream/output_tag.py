"""`OutputTag` names a side output and the type of its records (PyFlink: ``pyflink.datastream.output_tag``)."""

from tidegate.functions.output_tag import (
    OutputTag,
)

__all__ = [
    "OutputTag",
]
