"""The machine of an election in a bucket, event by event, and what lies in the bucket."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tidegate.high_availability.object_store.codec import decode_ledger, encode_ledger
from tidegate.high_availability.object_store.lease import (
    ChangeRefused,
    ChangeRequested,
    ChangeUnknown,
    Done,
    GaveUp,
    LeadershipRequested,
    Lease,
    LeaseCommand,
    LeaseEvent,
    Look,
    Looked,
    NotAnswered,
    ReleaseRequested,
    Seen,
    Swap,
    Swapped,
    SwapRefused,
    Tell,
    Version,
    WakeMe,
    Watch,
    Woken,
)
from tidegate.high_availability.object_store.ledger import (
    LEADER,
    Create,
    Delete,
    Ledger,
    Put,
    change,
    names_below,
    released,
)
from tidegate.model.errors import CorruptData, VersionMismatch
from tidegate.model.leadership import Connected, LockAcquired, Lost, Suspended

V1, V2, V3 = Version("1"), Version("2"), Version("3")
OTHER = Ledger(4, 9, "other", 5_000, {LEADER: b"where it is", "jobs/a/attempt": b"3"})


class At:
    """A machine and its clock."""

    def __init__(self) -> None:
        self.lease = Lease("me", 5_000, 1_000)
        self.now_ms = 0

    def on(self, event: LeaseEvent, after_ms: int = 0) -> Sequence[LeaseCommand]:
        self.now_ms += after_ms
        commands = list(self.lease.on(event, self.now_ms))
        self.lease.check_invariants()
        return commands


def in_line() -> At:
    at = At()
    assert at.on(Woken()) == [Look()]
    assert at.on(Looked(None)) == [Tell(Connected(1)), WakeMe(1_000)]
    assert at.on(LeadershipRequested(1)) == [Look()]
    return at


def leading() -> At:
    at = in_line()
    at.on(Looked(None))
    assert at.on(Swapped(V1)) == [Tell(LockAcquired(1, 1)), WakeMe(1_000)]
    return at


def test_an_empty_bucket_is_claimed_at_once() -> None:
    at = in_line()
    assert at.on(Looked(None)) == [Swap(Ledger(1, 1, "me", 5_000), None)]
    assert at.on(Swapped(V1)) == [Tell(LockAcquired(1, 1)), WakeMe(1_000)]


def test_a_leader_is_waited_for_as_long_as_its_ledger_changes() -> None:
    at = in_line()
    assert at.on(Looked(Seen(OTHER, V1))) == [WakeMe(1_000)]
    for _ in range(4):
        assert at.on(Woken(), 1_000) == [Look()]
        at.on(Looked(Seen(OTHER, V1)))
    renewed = Ledger(4, 10, "other", 5_000, OTHER.entries)
    assert at.on(Woken(), 900) == [Look()]
    assert at.on(Looked(Seen(renewed, V2))) == [WakeMe(1_000)], "it lives"
    assert at.on(Woken(), 4_600) == [Look()]
    assert at.on(Looked(Seen(renewed, V2))) == [WakeMe(400)], "not longer than its lease"
    assert at.on(Woken(), 400) == [Look()]
    assert at.on(Looked(Seen(renewed, V2))) == [Swap(Ledger(5, 11, "me", 5_000, {"jobs/a/attempt": b"3"}), V2)]


def test_one_that_has_resigned_is_not_waited_for() -> None:
    at = in_line()
    assert released(OTHER).holder == ""
    commands = at.on(Looked(Seen(released(OTHER), V1)))
    assert commands == [Swap(Ledger(5, 11, "me", 5_000, {"jobs/a/attempt": b"3"}), V1)]
    assert at.on(SwapRefused()) == [Look()], "another was first"


def test_a_claim_without_an_answer_is_looked_for_and_made_again_with_a_higher_term() -> None:
    at = in_line()
    (claim,) = at.on(Looked(None))
    assert isinstance(claim, Swap)
    assert at.on(NotAnswered(), 100) == [WakeMe(250)]
    assert at.on(Woken(), 250) == [Look()]
    (again,) = at.on(Looked(Seen(claim.ledger, V1)))
    assert again == Swap(Ledger(2, 2, "me", 5_000), V1)


def test_changes_that_come_meanwhile_go_together_in_the_next_swap() -> None:
    at = leading()
    (first,) = at.on(ChangeRequested(1, 1, Create("a", b"1")))
    assert first == Swap(Ledger(1, 2, "me", 5_000, {"a": b"1"}), V1)
    assert at.on(ChangeRequested(2, 1, Create("a", b"2"))) == []
    assert at.on(ChangeRequested(3, 1, Put("b", b"3"))) == []
    assert at.on(Swapped(V2)) == [Done(1, True), Swap(Ledger(1, 3, "me", 5_000, {"a": b"1", "b": b"3"}), V2)]
    assert at.on(Swapped(V3)) == [Done(2, False), Done(3, True), WakeMe(1_000)]


def test_a_leader_that_has_nothing_to_say_renews_its_lease() -> None:
    at = leading()
    assert at.on(Woken(), 400) == [WakeMe(600)]
    assert at.on(Woken(), 600) == [Swap(Ledger(1, 2, "me", 5_000), V1)]


@pytest.mark.parametrize("has_arrived", [True, False])
def test_a_change_without_an_answer_is_looked_for_before_anything_else(has_arrived: bool) -> None:
    at = leading()
    (asked,) = at.on(ChangeRequested(1, 1, Put("a", b"1")))
    assert isinstance(asked, Swap)
    assert at.on(NotAnswered("late"), 2_500) == [Tell(Suspended("late")), WakeMe(250)]
    assert at.on(ChangeRequested(2, 1, Put("b", b"2"))) == []
    assert at.on(Woken(), 250) == [Look()]
    seen = Seen(asked.ledger, V2) if has_arrived else Seen(Ledger(1, 1, "me", 5_000), V1)
    told, again = at.on(Looked(seen))
    assert told == Tell(Connected(1))
    assert again == Swap(
        Ledger(1, seen.ledger.revision + 1, "me", 5_000, {"a": b"1", "b": b"2"}), V2 if has_arrived else V1
    )
    assert at.on(Swapped(V3))[:2] == [Done(1, True), Done(2, True)]


def test_a_refused_swap_shows_who_leads_and_what_waits_is_refused() -> None:
    at = leading()
    at.on(ChangeRequested(1, 1, Put("a", b"1")))
    assert at.on(SwapRefused()) == [Look()]
    told = "another JobManager leads, in term 4"
    commands = at.on(Looked(Seen(OTHER, V2)))
    assert commands == [ChangeUnknown(1, told), Tell(Lost(told)), Tell(Connected(2)), WakeMe(1_000)]
    assert at.on(ChangeRequested(2, 1, Put("a", b"1"))) == [ChangeRefused(2, "term 1 of the election has ended")]
    assert at.on(LeadershipRequested(1)) == [], "of the session that is over"
    assert at.on(LeadershipRequested(2)) == [Look()]


def test_a_ledger_that_somebody_removed_ends_the_lead() -> None:
    at = leading()
    at.on(Woken(), 1_000)
    at.on(SwapRefused())
    told = "the ledger of the cluster was removed from the bucket"
    assert at.on(Looked(None)) == [Tell(Lost(told)), Tell(Connected(2)), WakeMe(1_000)]


def test_whoever_resigns_says_so_after_what_is_under_way() -> None:
    at = leading()
    at.on(ChangeRequested(1, 1, Put("a", b"1")))
    assert at.on(ReleaseRequested()) == [ChangeUnknown(1, "this JobManager has given up its lead")]
    assert at.on(Swapped(V2)) == [Swap(Ledger(1, 3, "", 5_000, {"a": b"1"}), V2)]
    assert at.on(Swapped(V3)) == [GaveUp(), WakeMe(1_000)]
    assert At().on(ReleaseRequested()) == [GaveUp()]


def test_the_first_look_at_a_ledger_begins_its_lease() -> None:
    watch = Watch()
    assert watch.left_ms(None, 0) == 0
    assert watch.left_ms(OTHER, 100) == 5_000
    assert watch.left_ms(OTHER, 5_000) == 100
    assert watch.left_ms(OTHER, 6_000) == 0
    assert watch.left_ms(released(OTHER), 6_000) == 0


def test_entries_are_changed_so_that_a_second_time_does_no_harm() -> None:
    entries = {"jobs/a/1": b"x", "jobs/ab": b"y"}
    for _ in range(2):
        assert change(entries, Create("jobs/a/2", b"z"))
        assert not change(entries, Create("jobs/a/1", b"other"))
        assert change(entries, Put("jobs/b/c/d", b"w"))
    assert names_below(entries, "jobs") == ["a", "ab", "b"]
    assert names_below(entries, "job") == []
    assert change(entries, Delete("jobs/a"))
    assert sorted(entries) == ["jobs/ab", "jobs/b/c/d"]


def test_a_ledger_is_read_as_it_was_written() -> None:
    ledger = Ledger(4, 9, "me", 5_000, {"a": bytes(range(256))})
    assert decode_ledger(encode_ledger(ledger, "0.1"), "there") == ledger


@pytest.mark.parametrize(
    ("content", "error", "told"),
    [
        (
            b'{"format":7,"written_by":"tidegate 3.0","more":1}',
            VersionMismatch,
            "there has format 7, written by tidegate 3.0",
        ),
        (b"{", CorruptData, "there is not a ledger of tidegate"),
        (b'{"format":1,"term":"x"}', CorruptData, "there is not a ledger of tidegate"),
    ],
)
def test_what_cannot_be_read_is_named(content: bytes, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        decode_ledger(content, "there")
