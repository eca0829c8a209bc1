"""Credit under any sizes, windows and interleavings: bounded, and never stuck."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from tidegate.taskmanager.machines.credit import GrantCredit, ReceiverCredit, SenderCredit

Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["send", "deliver", "consume", "credit"]), st.integers(1, 500)), max_size=120
)


class Channel:
    """Both ends and the two wires between them, in order. ``None`` on the data wire is a BACKLOG."""

    def __init__(self, sizes: list[int], window: int) -> None:
        self.sender, self.receiver = SenderCredit(), ReceiverCredit()
        self.waiting, self.window = deque(sizes), window
        self.data: deque[int | None] = deque()
        self.queue: deque[int] = deque()
        self.credits: deque[GrantCredit] = deque([self.receiver.open(window)])
        self.largest = max(sizes, default=0)
        self.widest = window

    def do(self, action: str) -> bool:
        """One step; whether anything happened."""
        if action == "send" and self.waiting:
            if self.sender.may_send(self.waiting[0]):
                self.sender.on_sent(self.waiting[0])
                self.data.append(self.waiting.popleft())
                return True
            if self.sender.should_ask():
                self.data.append(None)
                return True
        elif action == "deliver" and self.data:
            size = self.data.popleft()
            if size is None:
                self.receiver.on_requested()
                self.grant()
            else:
                self.receiver.on_received(size)
                self.queue.append(size)
            return True
        elif action == "consume" and self.queue:
            self.receiver.on_consumed(self.queue.popleft())
            self.grant()
            return True
        elif action == "credit" and self.credits:
            grant = self.credits.popleft()
            self.sender.on_credit(grant.granted_bytes, grant.consumed_bytes)
            return True
        return False

    def grant(self) -> None:
        found = self.receiver.decide_grant(self.window)
        if found is not None:
            self.credits.append(found)

    def check(self) -> None:
        in_flight = self.sender.sent - self.receiver.consumed
        assert in_flight <= max(self.widest, self.largest)
        assert self.sender.granted <= self.receiver.granted <= self.receiver.consumed + self.widest


def drain(channel: Channel, action: str) -> bool:
    """As much as there is of one action: sending goes to the very end of its credit."""
    happened = False
    while channel.do(action):
        channel.check()
        happened = True
    return happened


@given(sizes=st.lists(st.integers(1, 300), max_size=40), window=st.integers(1, 400), steps=STEPS)
def test_bounded_and_never_stuck(sizes: list[int], window: int, steps: list[Step]) -> None:
    channel = Channel(sizes, window)
    for action, new_window in steps:
        if action == "consume":
            channel.window = new_window
            channel.widest = max(channel.widest, new_window)
        channel.do(action)
        channel.check()
    while any([drain(channel, action) for action in ("credit", "send", "deliver", "consume")]):  # noqa: C419  (all of them)
        pass
    assert not channel.waiting, "data waits forever"
    assert channel.receiver.consumed == sum(sizes)
