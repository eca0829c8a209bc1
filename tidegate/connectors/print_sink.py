"""`PrintSink`: prints each record as a line on the standard output of its subtask's process.

Lines begin as Flink's: ``identifier:2> record``, where 2 is the number of the subtask from 1; both parts are left out when
they say nothing (no identifier, parallelism 1). Nothing is transactional here: after a restart lines may come again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Sink, SinkContext, SinkWriter
from tidegate.model.values import StateValue
from tidegate.records.batch import Batch
from tidegate.records.record_codec import records_of
from tidegate.records.record_text import printed_text


class PrintSink(Sink):
    """Prints records. ``identifier``: a prefix of the lines; ``stderr``: prints to the standard error instead."""

    def __init__(self, identifier: str = "", stderr: bool = False) -> None:
        self._identifier = identifier
        self._stderr = stderr

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        return PrintWriter(*printing_place(self._identifier, self._stderr, context), input_type)


def printing_place(identifier: str, stderr: bool, context: SinkContext) -> tuple[str, TextIO]:
    """Returns the prefix of a subtask's lines, and the stream to print to."""
    prefix = identifier
    if context.parallelism > 1:
        prefix += f"{':' if prefix else ''}{context.subtask_index + 1}"
    stream = sys.stderr if stderr else sys.stdout
    bare = getattr(stream, "bare", None)  # of a subtask: other lines are printed with the name of their task
    return f"{prefix}> " if prefix else "", bare or stream


class PrintWriter(SinkWriter):
    """Prints the records of one subtask."""

    works_on = "records"

    def __init__(self, prefix: str, stream: TextIO, input_type: TypeInformation) -> None:
        self._prefix = prefix
        self._stream = stream
        self._input_type = input_type

    def write(self, batch: Batch) -> None:
        """Prints a batch in one write."""
        values = records_of(batch, self._input_type)
        # One write for each batch, so that the lines of several subtasks do not mix.
        self._stream.write("".join([f"{self._prefix}{printed_text(value, self._input_type)}\n" for value in values]))
        self._stream.flush()

    def flush(self, end_of_input: bool) -> None:
        self._stream.flush()
