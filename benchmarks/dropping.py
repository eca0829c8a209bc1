"""A sink that drops what it is given, as columns or as records, so that writing is not what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.connectors.base import Sink, SinkContext, SinkWriter
from tidegate.records.batch import Batch


class Dropping(Sink):
    """As Flink's ``blackhole``."""

    def make_writer(self, context: SinkContext, state: Sequence[Any], input_type: Any) -> SinkWriter:
        return _Writer()


class _Writer(SinkWriter):
    works_on = "any"

    def write(self, batch: Batch) -> None:
        """Dropped."""

    def flush(self, end_of_input: bool) -> None:
        """Nothing is held."""
