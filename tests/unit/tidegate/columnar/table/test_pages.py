"""Pages of key groups: every slot is of one group, and a group's slots are known in the order in which they were given away."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.columnar.table.pages import GroupPages, page_shift
from tidegate.model.errors import NoResourceAvailable


def test_slots_are_given_away_once_and_listed_by_group_in_their_order() -> None:
    rng, ensured = np.random.default_rng(5), list[int]()
    pages = GroupPages("op", 7, 1 << 16, ensured.append)
    given: dict[int, list[int]] = {group: [] for group in range(7)}
    for _ in range(60):
        groups = rng.integers(0, 7, rng.integers(1, 400)).astype(np.intp)
        slots = pages.allocate(groups)
        assert ensured[-1] > slots.max()
        for group, slot in zip(groups.tolist(), slots.tolist(), strict=True):
            given[group].append(slot)
        frozen = pages.frozen()
        assert {group: frozen.slots_of(group).tolist() for group in range(7)} == given
    everything = [slot for slots in given.values() for slot in slots]
    assert sorted(pages.slots().tolist()) == sorted(everything)
    assert len(set(everything)) == len(everything) == pages.used_slots


def test_a_walk_over_some_slots_at_a_time_meets_each_with_its_group() -> None:
    rng = np.random.default_rng(6)
    pages = GroupPages("op", 5, 1 << 15, lambda slots: None)
    expected: dict[int, int] = {}
    for _ in range(10):
        groups = rng.integers(0, 5, 300).astype(np.intp)
        expected |= dict(zip(pages.allocate(groups).tolist(), groups.tolist(), strict=True))
    met: dict[int, int] = {}
    begin = 0
    while True:
        slots, groups, begin = pages.some_slots(begin, 100)
        met |= dict(zip(slots.tolist(), groups.tolist(), strict=True))
        if not begin:
            break
    assert met == expected


def test_what_was_frozen_does_not_learn_of_later_slots() -> None:
    pages = GroupPages("op", 2, 1 << 12, lambda slots: None)
    first = pages.allocate(np.zeros(10, np.intp))
    frozen = pages.frozen()
    pages.allocate(np.zeros(3000, np.intp))
    assert frozen.slots_of(0).tolist() == first.tolist()
    assert frozen.slots_of(1).tolist() == []


def test_what_is_refused_takes_no_slot() -> None:
    def refuse(slots: int) -> None:
        raise NoResourceAvailable("the disk is full")

    size = 1 << page_shift(2)
    for pages, error in (
        (
            GroupPages("op", 2, size, lambda slots: None),
            "operator 'op': its keyed state of 1 keys does not fit into this machine's memory",
        ),
        (GroupPages("op", 2, 8 * size, lambda slots: refuse(slots) if slots > size else None), "the disk is full"),
    ):
        pages.allocate(np.zeros(1, np.intp))
        with pytest.raises(NoResourceAvailable, match=error):
            pages.allocate(np.ones(1, np.intp))
        assert pages.used_slots == 1
        assert pages.allocate(np.zeros(1, np.intp)).tolist() == [1]
