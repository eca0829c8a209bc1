"""Reads, creates and changes savepoints as tables (Flink: the State Processor API, ``flink-state-processor-api``).

SavepointReader ─▶ pyarrow.Table, batch by batch ─▶ (change it) ─▶ OperatorTransformation ─▶ SavepointWriter ─▶ a job restores it
"""

from tidegate.state_processor.identifier import OperatorIdentifier
from tidegate.state_processor.reader import SavepointReader
from tidegate.state_processor.transformation import (
    KeyedOperatorTransformation,
    OneInputOperatorTransformation,
    OperatorTransformation,
    StateBootstrapTransformation,
)
from tidegate.state_processor.writer import SavepointWriter

__all__ = [
    "KeyedOperatorTransformation",
    "OneInputOperatorTransformation",
    "OperatorIdentifier",
    "OperatorTransformation",
    "SavepointReader",
    "SavepointWriter",
    "StateBootstrapTransformation",
]
