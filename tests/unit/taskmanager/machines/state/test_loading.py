"""The order in which key groups are loaded: what was begun, what rows wait for, then the rest; each group once."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tidegate.taskmanager.machines.state.loading import KeyGroupLoading


def test_the_group_that_most_rows_wait_for_comes_first_and_what_was_begun_before_it() -> None:
    loading = KeyGroupLoading({0: 5, 1: 0, 2: 7, 3: 9})
    assert list(loading.left) == [0, 2, 3]
    assert loading.rows_left == 21
    assert loading.next() == 0
    assert loading.begin(0)
    loading.waits(3, 10)
    loading.waits(2, 8)
    loading.waits(2, 4)
    assert loading.next() == 0
    assert not loading.begin(0)
    assert loading.upcoming(2) == [2, 3]
    assert not loading.progressed(0, 3)
    assert loading.rows_left == 18
    assert loading.progressed(0, 2)
    loading.loaded(0)
    assert loading.next() == 2
    loading.begin(2)
    loading.loaded(2)
    assert list(loading.left) == [3]
    assert loading.next() == 3
    loading.loaded(3)
    assert loading.next() is None
    assert loading.is_done


def test_in_the_order_of_groups_it_goes_on_above_the_last_one_with_what_was_asked_for() -> None:
    loading = KeyGroupLoading(dict.fromkeys(range(6), 1), is_ascending=True)
    for wanted in (3, 1, 4):
        loading.waits(wanted, 1)
    found = []
    while (group := loading.next()) is not None:
        loading.begin(group)
        if group == 3:
            loading.waits(2, 100)
        assert loading.next() == group
        found.append((group, loading.upcoming(2)))
        loading.loaded(group)
    assert found == [(1, [3, 4]), (3, [4, 2]), (4, [2]), (2, [5, 0]), (5, [0]), (0, [])]


def test_a_group_that_cannot_wait_is_loaded_out_of_turn() -> None:
    loading = KeyGroupLoading({0: 5, 1: 5})
    loading.begin(0)
    loading.progressed(1, 2)
    assert loading.rows_left == 8
    loading.loaded(1)
    assert loading.next() == 0
    loading.loaded(0)
    assert loading.is_done


def test_nothing_to_load_is_done() -> None:
    assert KeyGroupLoading({0: 0, 1: 0}).is_done


class AnyOrder(RuleBasedStateMachine):
    @initialize(rows=st.lists(st.integers(0, 3), min_size=1, max_size=8), is_ascending=st.booleans())
    def begin_with(self, rows: list[int], is_ascending: bool) -> None:
        self.rows = rows
        self.loading = KeyGroupLoading(dict(enumerate(rows)), is_ascending=is_ascending)
        self.loaded: list[int] = []

    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        if self.loading.left:
            self.loading.waits(data.draw(st.sampled_from(sorted(self.loading.left))), data.draw(st.integers(1, 9)))

    @rule(rows=st.integers(0, 2))
    def load_some(self, rows: int) -> None:
        group = self.loading.next()
        if group is not None:
            self.loading.begin(group)
            assert group not in self.loading.upcoming(3)
            self.advance(group, rows)

    @rule(data=st.data(), rows=st.integers(0, 2))
    def load_out_of_turn(self, data: st.DataObject, rows: int) -> None:
        if self.loading.left:
            self.advance(data.draw(st.sampled_from(sorted(self.loading.left))), rows)

    def advance(self, group: int, rows: int) -> None:
        if self.loading.progressed(group, rows):
            self.loading.loaded(group)
            self.loaded.append(group)

    @invariant()
    def each_once(self) -> None:
        self.loading.check_invariants()
        assert len(set(self.loaded)) == len(self.loaded)
        assert sorted([*self.loading.left, *self.loaded]) == [g for g, count in enumerate(self.rows) if count]
        assert 0 <= self.loading.rows_left <= sum(self.loading.left.values())

    def teardown(self) -> None:
        while self.loading.next() is not None:
            self.load_some(1)
        assert self.loading.is_done


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
