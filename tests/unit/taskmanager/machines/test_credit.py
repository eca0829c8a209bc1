"""Credit: the bound holds, everything gets through, and the window follows the consumer's speed."""

from __future__ import annotations

import math

import pytest

from tidegate.model.errors import CorruptFrame
from tidegate.taskmanager.machines.credit import (
    BufferDebloater,
    GrantCredit,
    ReceiverCredit,
    SenderCredit,
    WindowBounds,
    WorkRate,
    decide_window,
    short_window,
)


def test_nothing_is_sent_before_the_first_grant() -> None:
    sender = SenderCredit()
    assert not sender.may_send(0)
    assert not sender.should_ask()
    sender.on_credit(0, 0)
    assert sender.may_send(10)


def test_sender_stops_at_what_was_granted() -> None:
    sender = SenderCredit()
    sender.on_credit(100, 0)
    sender.on_sent(60)
    assert sender.may_send(40)
    assert not sender.may_send(41)
    sender.on_credit(101, 1)
    assert sender.may_send(41)


def test_a_large_frame_goes_when_nothing_is_in_flight() -> None:
    sender = SenderCredit()
    sender.on_credit(100, 0)
    sender.on_sent(1)
    assert not sender.may_send(5000)
    sender.on_credit(101, 1)
    assert sender.may_send(5000)
    sender.on_sent(5000)
    assert sender.in_flight == 5000
    assert not sender.may_send(1)


def test_sender_asks_once_each_time() -> None:
    sender = SenderCredit()
    sender.on_credit(10, 0)
    assert [sender.should_ask(), sender.should_ask()] == [True, False]
    sender.on_sent(10)
    assert sender.should_ask()


@pytest.mark.parametrize(("granted", "consumed"), [(99, 0), (100, 11), (100, -1)])
def test_impossible_credit_is_told(granted: int, consumed: int) -> None:
    sender = SenderCredit()
    sender.on_credit(100, 0)
    sender.on_sent(10)
    with pytest.raises(CorruptFrame):
        sender.on_credit(granted, consumed)


def test_receiver_grants_by_quarters() -> None:
    receiver = ReceiverCredit()
    assert receiver.open(100) == GrantCredit(100, 0)
    receiver.on_received(60)
    receiver.on_consumed(20)
    assert receiver.decide_grant(100) is None
    receiver.on_consumed(5)
    assert receiver.decide_grant(100) == GrantCredit(125, 25)


def test_receiver_takes_nothing_back_when_the_window_shrinks() -> None:
    receiver = ReceiverCredit()
    receiver.open(100)
    receiver.on_received(60)
    receiver.on_consumed(60)
    assert receiver.decide_grant(10) is None
    receiver.on_received(40)
    receiver.on_consumed(40)
    assert receiver.decide_grant(10) == GrantCredit(110, 100)


def test_receiver_answers_a_blocked_sender_once_all_is_consumed() -> None:
    receiver = ReceiverCredit()
    receiver.open(100)
    receiver.on_received(10)
    receiver.on_requested()
    assert receiver.decide_grant(100) is None
    receiver.on_consumed(10)
    assert receiver.decide_grant(100) == GrantCredit(110, 10)
    assert receiver.decide_grant(100) is None


def test_receiver_tells_a_sender_that_oversteps() -> None:
    receiver = ReceiverCredit()
    receiver.open(100)
    receiver.on_received(5000)
    with pytest.raises(CorruptFrame, match="5001 bytes, more than its credit: 100 were granted"):
        receiver.on_received(1)


def test_window_follows_the_measured_work() -> None:
    bounds, rate = WindowBounds(1000, 1_000_000, 25.0, first_bytes=5_000), WorkRate()
    assert decide_window(bounds, rate, 4) == 5_000
    for _ in range(100):
        rate.on_worked(20_000, 10.0)
    assert decide_window(bounds, rate, 1) == 50_000
    assert decide_window(bounds, rate, 4) == 12_500
    for _ in range(100):
        rate.on_worked(1_000, 50.0)
    assert decide_window(bounds, rate, 1) == 1000, "what is less than 100 ms of work"
    for _ in range(100):
        rate.on_worked(250, 50.0)
    assert decide_window(bounds, rate, 1) == 500, "a slow consumer has 100 ms of work"
    for _ in range(100):
        rate.on_worked(1, 50.0)
    assert decide_window(bounds, rate, 1) == 256
    for _ in range(200):
        rate.on_worked(10**6, 1.0)
    assert decide_window(bounds, rate, 1) == 1_000_000


def test_rate_of_no_time_is_unknown() -> None:
    rate = WorkRate()
    rate.on_worked(100, 0.0)
    rate.on_worked(100, -1.0)
    assert rate.bytes_per_ms is None


DEBLOATING = WindowBounds(1_000, 1_000_000, 25.0, period_ms=20.0, samples=1, threshold=0.25)


def measured(bytes_per_ms: int) -> BufferDebloater:
    """Decided at 0 ms, for one channel."""
    debloater = BufferDebloater(DEBLOATING)
    debloater.on_worked(bytes_per_ms, 1.0)
    assert debloater.window(0.0, 1) == 25 * bytes_per_ms
    return debloater


def test_a_window_holds_for_a_period() -> None:
    debloater = measured(1_000)
    debloater.on_worked(200_000, 1_000.0)  # five times slower
    assert debloater.window(19.0, 1) == 25_000
    assert debloater.window(20.0, 1) == pytest.approx(5_000, rel=0.01)


def test_little_is_made_for_a_consumer_that_grants_little() -> None:
    bounds, credit = WindowBounds(1_000, 1_000_000, 25.0, first_bytes=500), SenderCredit()
    assert short_window(bounds, credit) == 500, "nothing was granted yet"
    credit.on_credit(400, 0)
    assert short_window(bounds, credit) == 400
    credit.on_sent(400)
    credit.on_credit(1_400, 400)
    assert short_window(bounds, credit) is None
    credit.on_sent(1_000)
    credit.on_credit(1_410, 1_400)
    assert short_window(bounds, credit) == 256
    assert short_window(WindowBounds(1_000, 1_000_000, math.inf), credit) is None, "only bytes count"


def test_a_window_that_is_about_right_is_kept() -> None:
    debloater = measured(1_000)
    debloater.on_worked(1_200_000, 1_000.0)
    assert debloater.window(20.0, 1) == 25_000
    debloater.on_worked(1_300_000, 1_000.0)
    assert debloater.window(40.0, 1) == pytest.approx(32_500, rel=0.01)


def test_before_the_speed_is_known_and_when_a_channel_ends_a_window_is_decided_at_once() -> None:
    debloater = BufferDebloater(DEBLOATING)
    assert debloater.window(0.0, 2) == DEBLOATING.first_bytes
    debloater.on_worked(1_000, 1.0)
    assert debloater.window(1.0, 2) == 12_500
    assert debloater.window(2.0, 1) == 25_000


def test_without_debloating_the_bytes_alone_count() -> None:
    debloater = BufferDebloater(WindowBounds(1_000, 1_000_000, math.inf))
    assert debloater.window(0.0, 3) == 1_000_000
    debloater.on_worked(1, 1_000.0)
    assert debloater.window(100.0, 3) == 1_000_000


def window_of(fixed_ms: float, ms_per_byte: float, *, channels: int) -> int:
    """The window after many batches, each as large as the window of one channel."""
    debloater, now_ms = BufferDebloater(WindowBounds()), 0.0
    for _ in range(400):
        size = debloater.window(now_ms, channels)
        elapsed_ms = fixed_ms + ms_per_byte * size
        debloater.on_worked(size, elapsed_ms)
        now_ms += elapsed_ms
    return debloater.window(now_ms + 1_000, channels)


@pytest.mark.parametrize("channels", [4, 200])
def test_the_fixed_cost_of_a_batch_does_not_make_a_consumer_of_many_channels_slow(channels: int) -> None:
    assert window_of(2.0, 1e-5, channels=channels) >= WindowBounds().min_bytes


@pytest.mark.parametrize(("channels", "work_ms"), [(4, 25), (200, 10)])
def test_a_consumer_of_a_millisecond_for_each_record_is_granted_little(channels: int, work_ms: int) -> None:
    assert window_of(0.3, 1 / 24, channels=channels) == pytest.approx(work_ms * 24, rel=0.3)


def test_a_busy_machine_makes_no_consumer_slow() -> None:
    debloater = BufferDebloater(WindowBounds(1_000, 1_000_000, 25.0))
    debloater.on_worked(1_000, 1_000.0, 10.0)
    assert debloater.window(0.0, 1) == 1_000, "the consumer itself worked for 10 ms: 100 ms are 10,000 bytes"
    debloater.on_worked(1_000, 1_000.0, 1_000.0)
    assert debloater.window(2_000.0, 1) == 256
