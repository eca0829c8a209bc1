"""The order in which key groups are loaded: what was begun, what rows wait for, then the rest; each group once."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidegate.taskmanager.machines.state.loading import KeyGroupLoading


def test_the_group_that_most_rows_wait_for_comes_first_and_what_was_begun_before_it() -> None:
    loading = KeyGroupLoading([5, 0, 7, 9])
    assert loading.left == [0, 2, 3]
    assert loading.rows_left == 21
    assert loading.next() == 0
    loading.begin(0)
    loading.waits(3, 10)
    loading.waits(2, 8)
    loading.waits(2, 4)
    assert loading.next() == 0
    loading.end_reading(0)
    assert loading.next() == 2
    loading.begin(2)
    loading.end_reading(2)
    assert loading.next() == 3
    loading.loaded(0)
    loading.loaded(2)
    assert loading.left == [3]
    loading.begin(3)
    loading.end_reading(3)
    assert loading.next() is None
    assert not loading.is_done
    loading.loaded(3)
    assert loading.is_done


def test_nothing_to_load_is_done() -> None:
    assert KeyGroupLoading([0, 0]).is_done


class AnyOrder(RuleBasedStateMachine):
    @initialize(rows=st.lists(st.integers(0, 3), min_size=1, max_size=8))
    def begin_with(self, rows: list[int]) -> None:
        self.rows = rows
        self.loading = KeyGroupLoading(rows)
        self.read: list[int] = []
        self.loaded: list[int] = []

    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        if self.loading.left:
            self.loading.waits(data.draw(st.sampled_from(list(self.loading.left))), data.draw(st.integers(1, 9)))

    @rule(is_last=st.booleans())
    def read_some(self, is_last: bool) -> None:
        group = self.loading.next()
        if group is not None:
            self.loading.begin(group)
            if is_last:
                self.loading.end_reading(group)
                self.read.append(group)

    @precondition(lambda self: len(self.read) > len(self.loaded))
    @rule()
    def put(self) -> None:
        group = self.read[len(self.loaded)]
        self.loading.loaded(group)
        self.loaded.append(group)

    @invariant()
    def each_once(self) -> None:
        self.loading.check_invariants()
        assert len(set(self.read)) == len(self.read)
        assert sorted([*self.loading.left, *self.loaded]) == [g for g, count in enumerate(self.rows) if count]
        assert self.loading.rows_left == sum(self.rows[group] for group in self.loading.left)

    def teardown(self) -> None:
        while self.loading.next() is not None:
            self.read_some(True)
        while len(self.read) > len(self.loaded):
            self.put()
        assert self.loading.is_done


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
