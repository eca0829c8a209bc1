from __future__ import annotations

import sys
import threading

import pytest

from tests.unit.taskmanager.runtime.fakes import FakeClock
from tidegate.taskmanager.runtime.measuring import step_meter
from tidegate.taskmanager.runtime.measuring.step_meter import StepMeter
from tidegate.taskmanager.runtime.slicing import (
    FIRST_RECORDS,
    MAX_RECORDS,
    RECORDS_GATHER_BYTES,
    STEP_MS,
    WHOLE,
    SliceSizer,
)
from tidegate.taskmanager.runtime.timers import MAX_FIRE_MS, TimerQueue


def test_timers_fire_in_the_order_of_their_time_and_never_early() -> None:
    clock = FakeClock()
    fired: list[tuple[str, int]] = []
    timers = TimerQueue(clock)
    timers.schedule(1010, lambda at: fired.append(("late", at)))
    timers.schedule(1005, lambda at: fired.append(("first", at)))
    timers.schedule(1005, lambda at: fired.append(("second", at)))
    assert not timers.fire()
    assert timers.next_ms() == 1005
    clock.ms = 1006.0
    assert timers.fire()
    assert fired == [("first", 1005), ("second", 1005)]
    clock.ms = 1010.0
    timers.fire()
    assert fired[-1] == ("late", 1010)
    assert timers.next_ms() is None


def test_canceled_timers_do_not_fire() -> None:
    clock = FakeClock()
    fired: list[int] = []
    timers = TimerQueue(clock)
    token = timers.schedule(1001, fired.append)
    timers.cancel(token)
    clock.ms = 2000.0
    assert not timers.fire()
    assert fired == []


def test_after_the_end_of_data_no_timer_fires_and_none_is_taken() -> None:
    clock = FakeClock()
    fired: list[int] = []
    timers = TimerQueue(clock)
    timers.schedule(1001, fired.append)
    timers.quiesce()
    timers.schedule(1002, fired.append)
    clock.ms = 2000.0
    assert not timers.fire()
    assert fired == []


def test_many_slow_timers_do_not_keep_mails_waiting() -> None:
    clock = FakeClock()
    fired: list[int] = []
    timers = TimerQueue(clock)

    def slow(at: int) -> None:
        fired.append(at)
        clock.ms += MAX_FIRE_MS

    for _ in range(3):
        timers.schedule(1000, slow)
    timers.fire()
    assert len(fired) == 1


def test_columns_are_never_sliced() -> None:
    sizer = SliceSizer(columnar=True)
    sizer.observe(10, 1000.0)
    assert sizer.size() == WHOLE


def test_slices_grow_step_by_step_while_records_are_cheap() -> None:
    sizer = SliceSizer(columnar=False)
    sizes = []
    for _ in range(12):
        sizes.append(sizer.size())
        sizer.observe(sizer.size(), sizer.size() * 0.0001)
    assert sizes[:3] == [FIRST_RECORDS, 2 * FIRST_RECORDS, 4 * FIRST_RECORDS]
    assert sizes[-1] == MAX_RECORDS


def test_slices_shrink_at_once_when_records_become_dear_and_a_step_stays_short() -> None:
    sizer = SliceSizer(columnar=False)
    for _ in range(12):
        sizer.observe(sizer.size(), sizer.size() * 0.0001)
    sizer.observe(sizer.size(), sizer.size() * 0.5)
    assert sizer.size() * 0.5 <= STEP_MS
    sizer.observe(sizer.size(), sizer.size() * 100.0)
    assert sizer.size() == 1


def test_the_estimate_recovers() -> None:
    sizer = SliceSizer(columnar=False)
    sizer.observe(1, 100.0)
    for _ in range(80):
        sizer.observe(sizer.size(), sizer.size() * 0.001)
    assert sizer.size() > 1000


def test_the_short_rest_of_a_batch_tells_nothing_of_the_cost_of_a_record() -> None:
    sizer = SliceSizer(columnar=False, step_ms=5.0)
    for _ in range(20):
        sizer.observe(sizer.size(), 0.5 + sizer.size() * 0.001)
    large = sizer.size()
    sizer.observe(1, 0.5)
    assert sizer.size() == large
    sizer.observe(1, 50.0)  # but for one that really took long
    assert sizer.size() == 1


class _Outputs:
    """Ten bytes leave for each record."""

    def __init__(self) -> None:
        self.limit: int | None = None
        self.emitted = 0

    def slice_bytes(self) -> int | None:
        return self.limit

    def emitted_bytes(self) -> int:
        return self.emitted


@pytest.mark.parametrize("columnar", [True, False])
def test_slices_follow_what_may_wait_for_a_slow_consumer(columnar: bool) -> None:
    outputs = _Outputs()
    sizer = SliceSizer(columnar=columnar, first_records=200, outputs=outputs)
    whole = sizer.size()
    outputs.limit = 1_000
    assert sizer.size() == FIRST_RECORDS, "not known what a record gives"
    outputs.emitted += 10 * FIRST_RECORDS
    sizer.observe(FIRST_RECORDS, 0.001)
    assert sizer.size() == 100
    outputs.limit = 1
    assert sizer.size() == 1
    sizer.observe(1, 0.001)
    assert sizer.size() >= whole, "windows emit later"
    outputs.limit = None
    assert sizer.size() >= whole


class _Meter:
    """Whatever passed, a record costs a microsecond."""

    def start(self) -> None:
        pass

    def spent_ms(self, records: int, elapsed_ms: float) -> float:
        return 0.001 * records


def test_time_in_which_others_had_the_processor_makes_no_slice_smaller() -> None:
    sizer = SliceSizer(columnar=False, step_ms=5.0, meter=_Meter())
    for _ in range(20):
        sizer.observe(sizer.size(), 40.0)
    assert sizer.size() > 1000


def test_a_step_that_waits_for_each_record_has_cost_that_time() -> None:
    meter, event = StepMeter(), threading.Event()
    meter.start()
    for _ in range(8):
        event.wait(0.0005)
    assert meter.spent_ms(8, 1000.0) == 1000.0
    meter.start()
    assert meter.spent_ms(10**6, 1000.0) < 1000.0 or not sys.platform.startswith("linux")


class _Kernel:
    """What the meter asks the system for, by hand: a step computes and waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cpu_ms, self.waits = 0.0, 0
        monkeypatch.setattr(step_meter, "_COUNTS_WAITS", True)
        monkeypatch.setattr(step_meter, "_waits", lambda: self.waits)
        monkeypatch.setattr("time.thread_time_ns", lambda: int(self.cpu_ms * 1e6))
        self.meter = StepMeter()

    def step(self, records: int, computed_ms: float, waits: int = 0, waited_ms: float = 0.0) -> float:
        self.meter.start()
        self.cpu_ms += computed_ms
        self.waits += waits
        return self.meter.spent_ms(records, computed_ms + waited_ms)


def test_a_wait_now_and_then_is_not_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = _Kernel(monkeypatch)
    assert kernel.step(1, 0.5, 1, 40.0) == pytest.approx(40.5), "nothing else is known yet"
    assert kernel.step(1, 0.5) == pytest.approx(0.5)
    for _ in range(3):
        assert kernel.step(1, 0.5, 1, 40.0) == pytest.approx(0.5)
    assert kernel.step(1, 0.5, 1, 40.0) == pytest.approx(40.5), "now all of the last steps have waited"
    assert kernel.step(4, 2.0, 1, 8.0) == pytest.approx(2.0 + 8.0), "the least of them for each record counts"


def test_a_long_wait_and_many_waits_count_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = _Kernel(monkeypatch)
    for _ in range(8):
        kernel.step(1, 0.5)
    assert kernel.step(1, 0.5, 1, 500.0) == pytest.approx(500.5)
    for _ in range(8):
        kernel.step(1, 0.5)
    assert kernel.step(64, 0.5, 16, 30.0) == pytest.approx(30.5)


def test_a_busy_machine_leaves_slices_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps of three wait for the interpreter's lock, whose holder waits for a processor."""
    kernel = _Kernel(monkeypatch)
    sizer = SliceSizer(columnar=False, step_ms=5.0, first_records=1, meter=kernel.meter)
    for number in range(40):
        records = sizer.size()
        kernel.cpu_ms += 0.3 + 0.001 * records
        kernel.waits += number % 3 != 2
        sizer.observe(records, 0.3 + 0.001 * records + (25.0 if number % 3 != 2 else 0.0))
    assert sizer.size() > 500
    slow = SliceSizer(columnar=False, step_ms=5.0, first_records=1, meter=kernel.meter)
    for _ in range(20):
        records = slow.size()
        kernel.waits += records
        slow.observe(records, 500.0 * records)
    assert slow.size() == 1, "a function that calls a slow service"


def test_who_takes_many_records_at_once_takes_what_waits_as_one_batch() -> None:
    sizer = SliceSizer(columnar=False, step_ms=5.0, first_records=1)
    assert sizer.gather_bytes == 0
    sizer.observe(sizer.size(), 0.3)
    assert sizer.gather_bytes == RECORDS_GATHER_BYTES
    for _ in range(3):
        sizer.observe(sizer.size(), 500.0)
    assert sizer.gather_bytes == 0
