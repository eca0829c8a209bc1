"""When the input side of a source polls its reader."""

from __future__ import annotations

from typing import Any

from tests.unit.taskmanager.runtime.fakes import ATTEMPT, FakeClock, FakePort
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions
from tidegate.taskmanager.runtime.checkpointing.async_part import AlignmentMetrics
from tidegate.taskmanager.runtime.inputs.source_input import FIRST_RETRY_MS, SourceInput, SourcePace
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters
from tidegate.taskmanager.runtime.queryable.kv_states import KvStateRegistry
from tidegate.taskmanager.runtime.services import SubtaskServices
from tidegate.taskmanager.runtime.slicing import SliceSizer
from tidegate.taskmanager.runtime.timers import TimerQueue


class _Source:
    def __init__(self) -> None:
        self.emitted = 0
        self.has_data = True

    def poll_next(self, max_records: int) -> bool:
        self.emitted += self.has_data
        return self.has_data

    def is_finished(self) -> bool:
        return False


class _Snapshots:
    has_confirmed = False
    last_confirmed = 0

    def request(self, barrier: Barrier, figures: AlignmentMetrics) -> None: ...


def barrier(number: int) -> Barrier:
    return Barrier(number, 0, CheckpointOptions("memory:"))


def source_input(
    source: _Source,
    snapshots: _Snapshots,
    *,
    waits: bool = False,
    clock: FakeClock | None = None,
    rest_share: float = 0.0,
) -> SourceInput:
    unused: Any = None
    driver: Any = snapshots
    time = clock or FakeClock()
    return SourceInput(
        SubtaskServices(
            ATTEMPT,
            Mailbox(),
            FakePort(),
            time,
            TimerQueue(time),
            TimerQueue(time),
            TaskCounters(),
            lambda point, told: None,
            lambda: None,
            KvStateRegistry(128, None),
        ),
        source=source,
        chain=unused,
        snapshots=driver,
        sizer=SliceSizer(columnar=False),
        emitted=lambda: source.emitted,
        pace=SourcePace(waits, rest_share),
    )


def test_a_source_that_waits_emits_nothing_before_a_checkpoint_is_complete() -> None:
    source, snapshots = _Source(), _Snapshots()
    work = source_input(source, snapshots, waits=True)
    assert not any(work.step() for _ in range(3))
    assert source.emitted == 0
    snapshots.has_confirmed = True
    assert work.step()
    snapshots.has_confirmed = False  # it is asked until the first one only
    assert work.step()
    assert source.emitted == 2


def test_other_sources_emit_at_once() -> None:
    source = _Source()
    assert source_input(source, _Snapshots(), waits=False).step()
    assert source.emitted == 1


def resting() -> tuple[SourceInput, _Source, _Snapshots, FakeClock]:
    """It has sent its first barrier, 400 ms after it began."""
    source, snapshots, clock = _Source(), _Snapshots(), FakeClock()
    work = source_input(source, snapshots, clock=clock, rest_share=0.05)
    assert work.step()
    clock.ms += 400
    work.trigger(barrier(1))
    return work, source, snapshots, clock


def test_a_source_that_is_behind_rests_behind_its_barrier() -> None:
    work, source, _, clock = resting()
    assert not work.step()
    assert work.retry_ms == 20
    clock.ms += 15
    assert not work.step()
    assert work.retry_ms == 5
    clock.ms += 5
    assert work.step()
    assert (source.emitted, work.retry_ms) == (2, FIRST_RETRY_MS)


def test_it_goes_on_when_the_checkpoint_is_complete() -> None:
    work, _, snapshots, _ = resting()
    assert not work.step()
    snapshots.last_confirmed = 1
    assert work.step()


def test_it_goes_on_when_the_checkpoint_is_aborted() -> None:
    work, _, _, _ = resting()
    assert not work.step()
    work.abort(1)
    assert work.step()


def test_a_source_that_keeps_up_goes_on_reading() -> None:
    work, source, _, clock = resting()
    clock.ms += 100
    source.has_data = False
    assert not work.step()
    source.has_data = True
    clock.ms += 400
    work.trigger(barrier(2))
    assert work.step()


def test_by_itself_no_source_rests() -> None:
    source, clock = _Source(), FakeClock()
    work = source_input(source, _Snapshots(), clock=clock)
    clock.ms += 10_000
    work.trigger(barrier(1))
    assert work.step()
