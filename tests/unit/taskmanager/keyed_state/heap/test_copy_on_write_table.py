"""Law 3: what is frozen never changes, and nothing that is written meanwhile is lost."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidegate.taskmanager.keyed_state.heap.copy_on_write_table import FrozenTable, StateTable

KEYS = st.integers(0, 3)
KEYS_OF = ((0, 2), (1, 3))
"""By group."""


class TableAgainstDicts(RuleBasedStateMachine):
    """A table, and several overlapping snapshots of it, against plain copies."""

    def __init__(self) -> None:
        super().__init__()
        self.table = StateTable()
        self.model: dict[int, list[int]] = {}
        self.frozen: list[tuple[FrozenTable, dict[int, list[int]]]] = []
        self.written: dict[int, set[int]] = {}

    @rule(key=KEYS, value=st.lists(st.integers(), max_size=3))
    def write(self, key: int, value: list[int]) -> None:
        self.table.write(key % 2, (key, None), list(value))
        self.model[key] = list(value)

    @rule(key=KEYS, value=st.lists(st.integers(), max_size=3))
    def write_without_a_call(self, key: int, value: list[int]) -> None:
        entries = self.table.direct(key % 2)
        if entries is not None:
            assert {k: entries[k, None] for k in KEYS_OF[key % 2] if (k, None) in entries} == {
                k: held for k, held in self.model.items() if k in KEYS_OF[key % 2]
            }
            entries[key, None] = list(value)
            self.model[key] = list(value)

    @rule(values=st.dictionaries(KEYS, st.lists(st.integers(), max_size=3)))
    def write_several(self, values: dict[int, list[int]]) -> None:
        self.table.write_all(
            [key % 2 for key in values], [(key, None) for key in values], list(map(list, values.values()))
        )
        self.model.update({key: list(value) for key, value in values.items()})

    @rule()
    def peek_at_several(self) -> None:
        found = self.table.peek_all([0, 1, 0, 1], [(0, None), (1, None), (2, None), (3, None)])
        assert found == [self.model.get(key) for key in (0, 1, 2, 3)]

    @rule(key=KEYS, value=st.lists(st.integers(), max_size=3))
    def add_twice(self, key: int, value: list[int]) -> None:
        added = self.table.add_all([key % 2, key % 2], [(key, None), (key, None)], list(value))
        assert added == ([] if key in self.model else [(key % 2, (key, None))])
        self.model.setdefault(key, list(value))

    @rule(keys=st.lists(KEYS, max_size=4))
    def take_several(self, keys: list[int]) -> None:
        found = self.table.take_all([key % 2 for key in keys], [(key, None) for key in keys])
        assert found == [self.model.pop(key, None) for key in keys]

    @rule(keys=st.lists(KEYS, max_size=4))
    def delete_several(self, keys: list[int]) -> None:
        self.table.delete_all([key % 2 for key in keys], [(key, None) for key in keys])
        for key in keys:
            self.model.pop(key, None)

    @rule(key=KEYS)
    def delete(self, key: int) -> None:
        self.table.delete(key % 2, (key, None))
        self.model.pop(key, None)

    @rule(key=KEYS, value=st.integers())
    def mutate_what_was_handed_out(self, key: int, value: int) -> None:
        found = self.table.read(key % 2, (key, None))
        assert found == self.model.get(key)
        if found is not None:
            found.append(value)
            self.model[key].append(value)

    @rule()
    def freeze(self) -> None:
        if len(self.frozen) < 3:
            self.frozen.append((self.table.freeze(), {k: list(v) for k, v in self.model.items()}))

    @rule(index=st.integers(0, 2))
    def release(self, index: int) -> None:
        if index < len(self.frozen):
            frozen = self.frozen.pop(index)[0]
            self.written.pop(id(frozen), None)
            frozen.release()

    @invariant()
    def all_is_as_it_was(self) -> None:
        assert contents(self.table.entries()) == self.model
        for frozen, expected in self.frozen:
            done = self.written.get(id(frozen), set())
            assert contents(entry for entry in frozen.entries() if entry[0] not in done) == expected

    @rule()
    def merge(self) -> None:
        left = self.table.merge_some(2)
        if not self.frozen:
            while left:
                left = self.table.merge_some(2)
            assert all(len(held.layers) == 1 for held in self.table._groups.values())

    @rule(index=st.integers(0, 2), group=st.integers(0, 1))
    def a_group_is_written(self, index: int, group: int) -> None:
        if index < len(self.frozen):
            frozen, expected = self.frozen[index]
            frozen.written(group)
            for key in [key for key in expected if key % 2 == group]:
                del expected[key]
            self.written.setdefault(id(frozen), set()).add(group)


def contents(entries: Any) -> dict[int, list[int]]:
    rows = list(entries)
    groups = [group for group, _, _ in rows]
    assert groups == sorted(groups)
    found = {entry[0]: list(value) for _, entry, value in rows}
    assert len(found) == len(rows)
    return found


TestTable = TableAgainstDicts.TestCase
TestTable.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)


def test_freezing_copies_nothing() -> None:
    table = StateTable()
    value = [1, 2, 3]
    table.write(0, ("k", None), value)
    frozen = table.freeze()
    assert next(frozen.entries())[2] is value


def test_a_group_that_a_snapshot_needs_is_not_written_directly() -> None:
    table = StateTable()
    assert table.direct(0) is None
    table.write(0, (1, None), 5)
    assert table.direct(0) == {(1, None): 5}
    frozen = table.freeze()
    assert table.direct(0) is None
    table.write(0, (1, None), 6)
    assert [value for _, _, value in table.entries()] == [6]
    frozen.release()
    table.note_changes()
    assert table.direct(0) is None


def test_a_second_release_changes_nothing() -> None:
    table = StateTable()
    frozen = table.freeze()
    table.write(0, ("k", None), 1)
    frozen.release()
    frozen.release()
    assert table.read(0, ("k", None)) == 1
