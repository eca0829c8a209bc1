"""Sources of one group keep together: who is ahead pauses, and goes on when the others have come closer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.taskmanager.operators.harness import Running, spec, start
from tests.unit.taskmanager.operators.sources.test_watermarks import Parts, PartsSource
from tidegate.common import Duration, Row, Types
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.base import Polled, Split
from tidegate.jobmanager.machines.events import WatermarkReported
from tidegate.jobmanager.machines.job.watermark_groups import WatermarkGroups
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.errors import InvalidJob, Unreachable
from tidegate.model.ids import AttemptId, JobId, VertexId
from tidegate.records.batch import RecordsBatch
from tidegate.taskmanager.operators.sources.source import SourceOperator

UPDATE_MS = 500


class Group:
    """What stands between sources and the JobManager's machine."""

    def __init__(self) -> None:
        self.machine = WatermarkGroups()
        self.is_down = False
        self.sent: list[int] = []

    def source(self, vertex: str, strategy: WatermarkStrategy | None = None) -> tuple[Running, Parts]:
        attempt = AttemptId(JobId("a" * 32), VertexId(vertex * 32), 0, 0)

        def align(group: str, watermark_ms: int, interval_ms: int) -> int:
            if self.is_down:
                raise Unreachable("nobody there")
            self.sent.append(watermark_ms)
            return self.machine.on(WatermarkReported(attempt, group, watermark_ms, interval_ms), 0)

        source = PartsSource()
        strategy = (
            (strategy or WatermarkStrategy.for_monotonous_timestamps())
            .with_timestamp_assigner(lambda row, _: row[0])
            .with_idleness(Duration.of_seconds(2))
            .with_watermark_alignment("g", Duration.of_millis(100), Duration.of_millis(UPDATE_MS))
        )
        options = {"source": source, "splits": (Split("a"),), "watermark_strategy": strategy}
        given = {"align_watermark": align, "run_async": at_once}
        return start(spec("source", output_type=Types.ROW([Types.LONG()]), options=options), given=given), source.reader


def at_once(work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
    try:
        work()
    except Unreachable as error:
        done(error)
    else:
        done(None)


def poll(one: tuple[Running, Parts], value: int) -> bool:
    running, reader = one
    reader.parts = [Polled(RecordsBatch([Row(value)]), "a")]
    assert isinstance(running.operator, SourceOperator)
    return running.operator.poll_next(10)


def advance(ms: int, *sources: tuple[Running, Parts]) -> None:
    for _ in range(2):  # the second time with what the others told
        for running, _parts in sources:
            running.timers.advance_to(running.clock.ms + ms)


def test_who_is_ahead_pauses_until_the_others_have_come() -> None:
    group = Group()
    fast, slow = group.source("1"), group.source("2")
    advance(UPDATE_MS, fast, slow)
    assert poll(fast, 1000)
    assert poll(slow, 500)
    advance(UPDATE_MS, fast, slow)
    assert not poll(fast, 2000)
    assert poll(slow, 950)
    assert fast[0].out.watermarks == [999]
    advance(UPDATE_MS, slow, fast)
    assert poll(fast, 2000)
    assert fast[0].out.counts["watermarkAlignmentPauses"] == 1
    assert fast[0].out.idle == [], "a source that pauses is not idle"


def test_before_a_source_has_a_watermark_nobody_waits_for_it() -> None:
    """A partition may stay empty for ever, and would pause the whole group."""
    group = Group()
    one, other = group.source("1"), group.source("2")
    assert poll(one, 1000)
    advance(UPDATE_MS, one, other)
    assert group.sent == [999, 999]
    assert poll(one, 1050)
    advance(UPDATE_MS, one, other)
    assert poll(one, 1100)
    assert poll(other, 500)
    advance(UPDATE_MS, other, one)
    assert not poll(one, 1101), "now it has one"


@pytest.mark.parametrize("how", ["end", "idle"])
def test_a_source_at_its_end_or_idle_is_not_waited_for(how: str) -> None:
    group = Group()
    one, other = group.source("1"), group.source("2")
    poll(one, 1000)
    if how == "end":
        other[0].operator.on_watermark(END_OF_TIME)
        advance(UPDATE_MS, one)
    else:
        poll(other, 1)
        assert isinstance(other[0].operator, SourceOperator)
        for _ in range(6):
            other[0].operator.poll_next(10)
            advance(UPDATE_MS, one, other)
        assert other[0].out.idle == [True]
    assert END_OF_TIME in group.sent
    assert poll(one, 5000)


def test_without_an_answer_the_last_limit_holds() -> None:
    group = Group()
    one, other = group.source("1"), group.source("2")
    poll(one, 1000)
    poll(other, 990)
    advance(UPDATE_MS, other, one)
    group.is_down = True
    advance(10 * UPDATE_MS, other, one)
    assert poll(one, 1050)
    advance(200, one)
    assert poll(one, 1200)
    advance(200, one)
    assert not poll(one, 1201)
    group.is_down = False
    poll(other, 1150)
    advance(UPDATE_MS, other, one)
    assert poll(one, 1201)


def test_a_source_without_watermarks_holds_nobody_back() -> None:
    group = Group()
    one, _silent = group.source("1"), group.source("2", WatermarkStrategy.no_watermarks())
    assert poll(one, 1000)
    advance(UPDATE_MS, one)
    assert poll(one, 1001)


@pytest.mark.parametrize(("name", "drift_ms", "update_ms"), [("", 1, 1), ("g", 0, 1), ("g", 1, 0)])
def test_what_cannot_be_is_told(name: str, drift_ms: int, update_ms: int) -> None:
    strategy: Any = WatermarkStrategy.no_watermarks()
    with pytest.raises(InvalidJob, match="watermark alignment needs a group"):
        strategy.with_watermark_alignment(name, Duration.of_millis(drift_ms), Duration.of_millis(update_ms))
