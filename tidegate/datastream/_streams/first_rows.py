"""The first rows of results: reads until there are enough, the results end, or the time is up, and then cancels the job."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from tidegate.common.job_client import JobControl
from tidegate.connectors.collect import CollectedResults
from tidegate.model.errors import InvalidJob, TidegateError


@dataclass(frozen=True)
class FirstRows:
    """Some rows of a job's results. ``note``: says whether these are all."""

    batches: list[pa.RecordBatch]
    note: str


def check_wanted(rows: int, seconds: float) -> None:
    """Raises ``InvalidJob`` for numbers that are not above 0."""
    if rows < 1 or seconds <= 0:
        raise InvalidJob(
            f"a preview needs at least 1 row and more than 0 seconds, not {rows} rows within {seconds:g} s"
        )


def first_rows(control: JobControl, results: CollectedResults, rows: int, seconds: float) -> FirstRows:
    """Returns at most ``rows`` rows of a job's results that arrive within ``seconds`` after the job started to run, and cancels the job. Raises the
    job's error, and ``InvalidJob`` for numbers that are not above 0."""
    check_wanted(rows, seconds)
    reading = _Reading(control, results, rows)
    try:
        reading.wait(seconds)
    finally:
        reading.end()
    batches = _first(reading.batches, rows)
    return FirstRows(batches, _note(sum(map(len, batches)), rows, seconds, reading.has_ended))


class _Reading:
    """Reads results in a background thread, so that the program's thread can be interrupted while it waits."""

    def __init__(self, control: JobControl, results: CollectedResults, rows: int) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.has_ended = False
        self._control = control
        self._results = results
        self._rows = rows
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._is_running = self._is_stopped = False
        self._thread = threading.Thread(target=self._read, name="tidegate-preview", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Waits until the job runs, and from then on for the rows. Raises the job's error."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_running or self._is_over())
            self._changed.wait_for(self._is_over, seconds)
            if self._error is not None:
                raise self._error

    def end(self) -> None:
        """Cancels the job unless it has ended."""
        with self._changed:
            self._is_stopped = True
        with suppress(TidegateError):  # it failed, or its cluster has ended: the reader has seen it
            if not self._control.state().is_terminal:
                self._control.cancel()
            self._control.wait()
        self._thread.join()
        self._results.close()

    def _is_over(self) -> bool:
        return self.has_ended or self._error is not None or sum(map(len, self.batches)) >= self._rows

    def _read(self) -> None:
        try:
            self._results.connect()
            self._tell(is_running=True)
            for batch in self._results.batches():
                with self._changed:
                    self.batches.append(batch)
                    self._changed.notify_all()
                    if self._is_stopped or self._is_over():
                        return
            self._tell(has_ended=True)
        except Exception as error:  # noqa: BLE001  (raised again by the one that waits)
            self._tell(error=error)

    def _tell(self, *, is_running: bool = False, has_ended: bool = False, error: BaseException | None = None) -> None:
        with self._changed:
            self._is_running = self._is_running or is_running
            self.has_ended = has_ended
            self._error = None if self._is_stopped else error
            self._changed.notify_all()


def _first(batches: Sequence[pa.RecordBatch], rows: int) -> list[pa.RecordBatch]:
    found = []
    for batch in batches:
        if rows > 0:
            found.append(batch.slice(0, rows))
            rows -= len(found[-1])
    return found


def _note(count: int, rows: int, seconds: float, has_ended: bool) -> str:
    counted = f"{count} row{'' if count == 1 else 's'}"
    if count >= rows:
        return f"the first {counted}"
    return f"{counted}: all of the stream" if has_ended else f"{counted} within {seconds:g} s; the stream goes on"
