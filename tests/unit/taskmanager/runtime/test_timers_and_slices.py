from __future__ import annotations

import sys
import threading

from tests.unit.taskmanager.runtime.fakes import FakeClock
from tidegate.taskmanager.runtime.measuring.step_meter import StepMeter
from tidegate.taskmanager.runtime.slicing import FIRST_RECORDS, MAX_RECORDS, STEP_MS, WHOLE, SliceSizer
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
