"""The thread that looks for new splits: what it finds is reported once, and a look that fails is repeated unless that is in vain."""

from __future__ import annotations

import logging
import queue
from collections.abc import Sequence, Set

import pytest

from tests.e2e.waiting import wait_until
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.base import ReaderContext, Source, SourceReader, Split
from tidegate.connectors.split_discovery import SplitDiscovery
from tidegate.model.errors import CorruptData, InvalidJob, Unreachable

LIMIT_S = 30.0


class Growing(Source):
    """Each look finds what the test has put there, or raises it."""

    bounded = False
    discovery_ms = 1

    def __init__(self) -> None:
        self.there: queue.SimpleQueue[list[Split] | Exception] = queue.SimpleQueue()
        self.known: list[set[str]] = []

    def list_splits(self, parallelism: int) -> list[Split]:
        return []

    def make_reader(self, context: ReaderContext) -> SourceReader:
        raise AssertionError("it is only looked at")

    def produced_type(self) -> TypeInformation:
        return Types.STRING()

    def discover(self, known: Set[str]) -> list[Split]:
        self.known.append(set(known))
        found = self.there.get()
        if isinstance(found, Exception):
            raise found
        return found


class Looking:
    def __init__(self) -> None:
        self.source = Growing()
        self.reported: list[list[str]] = []
        self.discovery = SplitDiscovery(self.source, "lines", ["old"], self._report)
        self.discovery.start()

    def _report(self, found: Sequence[Split]) -> None:
        self.reported.append([split.split_id for split in found])

    def looks(self, *found: list[Split] | Exception) -> None:
        """Returns when the look after these has begun."""
        begun = len(self.source.known)
        for one in found:
            self.source.there.put(one)
        wait_until(lambda: len(self.source.known) >= begun + len(found), LIMIT_S, "it looks again")

    def close(self) -> None:
        self.discovery.close()
        self.source.there.put([])


def test_what_is_found_together_is_reported_together_and_known_from_then_on() -> None:
    looking = Looking()
    looking.looks([])
    looking.looks([Split("a"), Split("b")], [], [Split("c")])
    assert looking.reported == [["a", "b"], ["c"]]
    assert looking.source.known[0] == {"old"}
    assert looking.source.known[-1] == {"old", "a", "b", "c"}
    looking.close()


@pytest.mark.parametrize("failure", [Unreachable("no broker answers"), OSError("the mount is away")])
def test_a_look_that_fails_is_told_and_repeated(failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    looking = Looking()
    with caplog.at_level(logging.WARNING):
        looking.looks([])
        looking.looks(failure, [Split("a")])
    assert f"source 'lines': could not look for new splits (tried again in 0 s): {failure}" in caplog.text
    assert looking.reported == [["a"]]
    looking.discovery.check()
    looking.close()


@pytest.mark.parametrize("failure", [CorruptData("no Parquet"), InvalidJob("other columns"), ValueError("a bug")])
def test_what_would_fail_again_is_raised_in_the_readers_thread(failure: Exception) -> None:
    looking = Looking()
    looking.source.there.put(failure)

    def has_ended() -> bool:
        try:
            looking.discovery.check()
        except type(failure) as raised:
            return raised is failure
        return False

    wait_until(has_ended, LIMIT_S, "the reader's thread hears of it")
    looking.close()


def test_what_is_found_behind_the_end_is_not_reported() -> None:
    looking = Looking()
    looking.looks([])
    looking.discovery.close()
    looking.source.there.put([Split("late")])
    looking.discovery.join(LIMIT_S)
    assert looking.reported == []
