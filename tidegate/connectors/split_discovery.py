"""The thread in which one reader of a source looks for new splits, for all of its readers.

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
"""After a look that failed; or earlier, where the next one is due. As the readers of Kafka waited when each looked for itself."""

_LOG = logging.getLogger(__name__)


def source_split(source: Source, split: Split) -> SourceSplit:
    """Returns a split as its coordinator in the JobManager knows it."""
    return SourceSplit(split.split_id, msgspec.msgpack.encode(split.payload), source.size_of(split))


class SplitDiscovery:
    """Made when it is known what is no discovery."""

    def __init__(
        self, source: Source, name: str, known: Iterable[str], report: Callable[[Sequence[Split]], None]
    ) -> None:
        """``name``: of the operator, for messages. ``report`` is called in the thread."""
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
        """The first look begins at once."""
        self._thread.start()

    def check(self) -> None:
        """Raises what has ended the thread."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """A look that has begun is left alone: what it finds is not reported."""
        self._closing.set()

    def join(self, limit_s: float) -> None:
        """Waits until the look that has begun is over."""
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
        """Returns how long to wait for the next one."""
        try:
            found = self._source.discover(self._known)
        except CorruptData:
            raise
        except (ExternalError, OSError) as error:
            wait_s = min(self._interval_s, LOOK_AGAIN_S)
            _LOG.warning(
                "source '%s': new splits were not looked for, which is tried again in %.0f s: %s",
                self._name,
                wait_s,
                error,
            )
            return wait_s
        if found and not self._closing.is_set():
            self._known.update(split.split_id for split in found)
            self._report(found)
        return self._interval_s
