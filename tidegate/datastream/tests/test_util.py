"""A sink whose records a test reads, under PyFlink's name (``pyflink.datastream.tests.test_util``).

Subtasks write each batch as a file into a directory of the sink, on the machine of the test; the test reads them when its
job has ended; it goes with the process of the test. For programs, ``execute_and_collect`` does more: it streams, and each record comes once.
"""

from __future__ import annotations

import atexit
import pickle
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tidegate.aio.working_directories import make_below
from tidegate.common.typeinfo import TypeInformation
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.connectors.base import Sink, SinkContext, SinkWriter
from tidegate.model.values import Record, StateValue
from tidegate.records.batch import Batch
from tidegate.records.column_codec import pickle_value
from tidegate.records.record_codec import records_of
from tidegate.records.record_text import record_text

__all__ = ["DataStreamTestSinkFunction", "SecondColumnTimestampAssigner"]


class DataStreamTestSinkFunction(Sink):
    """Collects records for a test: ``stream.add_sink(sink)``, then ``get_results()`` when the job has ended."""

    def __init__(self) -> None:
        owned = make_below(Path(tempfile.gettempdir()), "results", "$TMPDIR")
        atexit.register(owned.remove)
        self._directory = owned.directory

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        return _FileOfEachBatch(self._directory, context.subtask_index, input_type)

    def get_results(self, is_python_object: bool = False, stringify: bool = True) -> list[Record]:
        """Returns the records since the last call: as Flink prints them, or with ``is_python_object`` as ``str`` of the object, or with
        ``stringify=False`` the object itself."""
        pairs = [pair for file in self._files() for pair in pickle.loads(file.read_bytes())]
        self.clear()
        if not is_python_object:
            return [text for text, _ in pairs]
        values = [pickle.loads(value) for _, value in pairs]
        return [str(value) for value in values] if stringify else values

    def clear(self) -> None:
        """Removes the results of earlier jobs."""
        for file in self._files():
            file.unlink()

    def _files(self) -> list[Path]:
        return sorted(self._directory.glob("[0-9]*"))


class _FileOfEachBatch(SinkWriter):
    works_on = "records"

    def __init__(self, directory: Path, subtask: int, input_type: TypeInformation) -> None:
        self._directory = directory
        self._subtask = subtask
        self._input_type = input_type
        self._batches = 0

    def write(self, batch: Batch) -> None:
        values = records_of(batch, self._input_type)
        pairs = [(record_text(value, self._input_type), pickle_value(value)) for value in values]
        file = self._directory / f"{self._subtask:06d}-{self._batches:09d}"
        file.write_bytes(pickle.dumps(pairs))
        self._batches += 1

    def flush(self, end_of_input: bool) -> None:
        """Does nothing: each batch is written at once."""


class SecondColumnTimestampAssigner(TimestampAssigner):
    """Takes the second field as event time in ms."""

    def extract_timestamp(self, value: Record, record_timestamp: int) -> int:
        return int(value[1])
