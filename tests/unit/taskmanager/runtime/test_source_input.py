"""When the input side of a source polls its reader."""

from __future__ import annotations

from typing import Any

from taskmanager.runtime.metrics import TaskCounters
from taskmanager.runtime.slicing import SliceSizer
from taskmanager.runtime.source_input import SourceInput
from tests.unit.taskmanager.runtime.fakes import FakeClock


class _Source:
    def __init__(self) -> None:
        self.emitted = 0

    def poll_next(self, max_records: int) -> bool:
        self.emitted += 1
        return True

    def is_finished(self) -> bool:
        return False


class _Snapshots:
    has_confirmed = False


def source_input(source: _Source, snapshots: _Snapshots, *, waits: bool) -> SourceInput:
    unused: Any = None
    driver: Any = snapshots
    return SourceInput(
        source=source,
        chain=unused,
        snapshots=driver,
        sizer=SliceSizer(columnar=False),
        counters=TaskCounters(),
        clock=FakeClock(),
        emitted=lambda: source.emitted,
        waits_for_checkpoint=waits,
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
