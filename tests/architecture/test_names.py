"""A public class is the only one of its name, or stands beside its counterpart for a reason that is said here."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.architecture.source import name_of, python_files, tree_of

PYFLINK = {
    "AggregateFunction", "ByteArraySchema", "CheckpointStorage", "CloseableIterator", "Column", "ConfigOption", "Configuration", "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema", "DeserializationSchema", "EnvironmentSettings", "Expression", "FileSink", "FileSource", "FunctionContext",
    "JsonRowDeserializationSchema", "JsonRowSerializationSchema", "Operator", "OperatorTransformation", "Over", "Partitioner", "ResolvedSchema",
    "RollingPolicy", "ScalarFunction", "SerializationSchema", "Session", "Source", "SourceReader", "SourceSplit", "State",
}  # fmt: skip
"""PyFlink's or Flink's class, whose name is given, over ours of the layer below, which is what it builds or reads."""
BOTH_SIDES = {
    "AbortCheckpoint", "CancelRequested", "CancelTask", "ConfirmCheckpoint", "ReportState", "SlotState", "SlotView",
    "StartTimer", "TimerFired",
}  # fmt: skip
"""What one machine commands and the next one receives, or what every driver gives its machine: Flink's word on either side."""


def test_a_public_class_is_the_only_one_of_its_name() -> None:
    found = defaultdict(list)
    for path in python_files():
        if name_of(path).startswith(("tidegate/", "jobmanager/", "taskmanager/", "cli/")):
            for node in tree_of(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(name_of(path))
    double = {name: files for name, files in found.items() if len(files) > 1}
    known = PYFLINK | BOTH_SIDES
    assert {name: files for name, files in double.items() if name not in known} == {}
    assert known - double.keys() == set(), "no longer double: it leaves the list"
