"""Split discovery: a background thread of one reader looks for new splits for all readers of the source.

    look ─▶ Source.discover(known) ─▶ report, and known from now on ─▶ wait ─▶ look ─▶ ...
      └── ExternalError, OSError ─▶ a warning ─▶ wait, at most 30 s ─▶ look

Laws: what is discovered at once is reported at once, so that of a file all parts or none are known. What cannot be over when it is tried again
is handed to the reader's thread (``check``), and fails the subtask. Nothing that is being read waits for this thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

import msgspec

from tidegate.connectors.base import Source, Split
from tidegate.model.coordinators.operator_events import SourceSplit
from tidegate.model.errors import CorruptData, ExternalError

LOOK_AGAIN_S = 30.0
"""The pause in seconds after a failed discovery; less if the next one is due earlier."""

_LOG = logging.getLogger(__name__)


def source_split(source: Source, split: Split) -> SourceSplit:
    """Converts a split to the form of its coordinator in the JobManager."""
    return SourceSplit(split.split_id, msgspec.msgpack.encode(split.payload), source.size_of(split))


class SplitDiscovery:
    """Discovers new splits of a source in a background thread."""

    def __init__(
        self, source: Source, name: str, known: Iterable[str], report: Callable[[Sequence[Split]], None]
    ) -> None:
        """Creates it. ``known``: ids of known splits. ``name``: of the operator, for messages. ``report``: called in the thread."""
        assert source.discovery_ms is not None, name
        self._source = source
        self._name = name
        self._interval_s = source.discovery_ms / 1000
        self._known = set(known)
        self._report = report
        self._closing = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tidegate-discovery", daemon=True)

    def start(self) -> None:
        """Starts the thread, which begins with a discovery."""
        self._thread.start()

    def check(self) -> None:
        """Raises the error that ended the thread."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Stops the thread; what a running discovery finds is not reported."""
        self._closing.set()

    def join(self, limit_s: float) -> None:
        """Waits until a running discovery has ended."""
        self._thread.join(limit_s)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                wait_s = self._look()
            except BaseException as error:  # noqa: BLE001  a driver of foreign code: handed to the subtask's thread as it is
                self._failure = error
                return
            self._closing.wait(wait_s)

    def _look(self) -> float:
        """Discovers new splits; returns how long to wait until the next time."""
        try:
            found = self._source.discover(self._known)
        except CorruptData:
            raise
        except (ExternalError, OSError) as error:
            wait_s = min(self._interval_s, LOOK_AGAIN_S)
            _LOG.warning(
                "source '%s': could not look for new splits (tried again in %.0f s): %s",
                self._name,
                wait_s,
                error,
            )
            return wait_s
        if found and not self._closing.is_set():
            self._known.update(split.split_id for split in found)
            self._report(found)
        return self._interval_s
