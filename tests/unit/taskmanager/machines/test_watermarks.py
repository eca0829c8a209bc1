from __future__ import annotations

from tidegate.model.channel_events import END_OF_TIME
from tidegate.taskmanager.machines.watermarks import (
    AdvanceWatermark,
    ChangeStatus,
    DataEnded,
    StatusArrived,
    ValveCommand,
    WatermarkArrived,
    WatermarkValve,
)


def mark(valve: WatermarkValve, channel: int, timestamp_ms: int) -> list[ValveCommand]:
    return list(valve.on(WatermarkArrived(channel, timestamp_ms), 0))


def idle(valve: WatermarkValve, channel: int, is_idle: bool = True) -> list[ValveCommand]:
    return list(valve.on(StatusArrived(channel, is_idle), 0))


def end(valve: WatermarkValve, channel: int, drain: bool = True) -> list[ValveCommand]:
    return list(valve.on(DataEnded(channel, drain), 0))


def test_the_minimum_over_all_channels_and_never_backwards() -> None:
    valve = WatermarkValve(2)
    assert mark(valve, 0, 10) == []
    assert mark(valve, 1, 5) == [AdvanceWatermark(5)]
    assert mark(valve, 1, 3) == []
    assert mark(valve, 1, 20) == [AdvanceWatermark(10)]
    assert valve.watermark == 10


def test_an_idle_channel_holds_nothing_back() -> None:
    valve = WatermarkValve(2)
    mark(valve, 0, 10)
    assert idle(valve, 1) == [AdvanceWatermark(10)]
    assert mark(valve, 1, 50) == []
    assert mark(valve, 0, 12) == [AdvanceWatermark(12)]


def test_a_channel_that_comes_back_behind_is_not_waited_for_until_it_has_caught_up() -> None:
    valve = WatermarkValve(2)
    mark(valve, 0, 10)
    idle(valve, 1)
    assert idle(valve, 1, False) == []
    assert mark(valve, 0, 15) == [AdvanceWatermark(15)]
    assert mark(valve, 1, 14) == []
    assert mark(valve, 0, 20) == [AdvanceWatermark(20)]
    assert mark(valve, 1, 21) == []
    assert mark(valve, 0, 30) == [AdvanceWatermark(21)]


def test_when_all_are_idle_the_largest_counts_and_the_status_turns() -> None:
    valve = WatermarkValve(2)
    mark(valve, 0, 10)
    mark(valve, 1, 5)
    assert idle(valve, 0) == []
    assert idle(valve, 1) == [AdvanceWatermark(10), ChangeStatus(True)]
    assert idle(valve, 1) == []
    assert idle(valve, 0, False) == [ChangeStatus(False)]


def test_the_largest_does_not_count_when_another_held_the_output_back() -> None:
    valve = WatermarkValve(2)
    mark(valve, 0, 10)
    mark(valve, 1, 5)
    assert idle(valve, 1) == [AdvanceWatermark(10)]
    assert idle(valve, 0) == [ChangeStatus(True)]


def test_an_ended_channel_is_out_and_the_last_one_ends_event_time() -> None:
    valve = WatermarkValve(3)
    mark(valve, 0, 10)
    mark(valve, 1, 20)
    mark(valve, 2, 3)
    assert end(valve, 2) == [AdvanceWatermark(10)]
    assert mark(valve, 2, 99) == []
    assert end(valve, 0) == [AdvanceWatermark(20)]
    assert end(valve, 1) == [AdvanceWatermark(END_OF_TIME)]
    assert end(valve, 1) == []


def test_an_ended_channel_does_not_end_event_time_for_an_idle_one() -> None:
    valve = WatermarkValve(2)
    mark(valve, 0, 10)
    mark(valve, 1, 7)
    idle(valve, 1)
    assert end(valve, 0) == [ChangeStatus(True)]
    assert idle(valve, 1, False) == [ChangeStatus(False)]
    assert mark(valve, 1, 12) == [AdvanceWatermark(12)]
    idle(valve, 1)
    assert end(valve, 1) == [ChangeStatus(False), AdvanceWatermark(END_OF_TIME)]


def test_without_drain_event_time_stays() -> None:
    valve = WatermarkValve(2)
    mark(valve, 0, 10)
    mark(valve, 1, 5)
    assert end(valve, 1, drain=False) == []
    assert mark(valve, 0, 50) == []
    assert valve.watermark == 5
