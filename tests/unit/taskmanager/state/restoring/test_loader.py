"""Key groups are loaded in their order, a step at a time, while the next ones are read; and the step that needs a damaged file raises its error."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import pytest

from tidegate.model.errors import CorruptData
from tidegate.taskmanager.state.restoring.loader import AHEAD, GroupLoader

PATIENCE_S = 30.0


class Source:
    """Each group has numbers, which come two at a time. ``damaged``: one that cannot be read."""

    def __init__(self, rows: Mapping[int, int], damaged: int | None = None) -> None:
        self.rows, self.damaged = dict(rows), damaged
        self.story: list[str] = []
        self.placed: dict[int, list[int]] = {}
        self.needed = threading.Semaphore(0)
        self.needs: list[int] = []

    def need(self, group: int) -> None:
        self.needs.append(group)
        self.needed.release()
        self._check(group)

    def chunks(self, group: int) -> Iterator[list[int]]:
        self._check(group)
        for at in range(0, self.rows[group], 2):
            yield list(range(at, min(at + 2, self.rows[group])))

    def put(self, group: int, chunk: list[int]) -> int:
        self.story.append(f"{group}: {chunk}")
        self.placed.setdefault(group, []).extend(chunk)
        return len(chunk)

    def loaded(self, group: int) -> None:
        self.story.append(f"{group} loaded")

    def _check(self, group: int) -> None:
        if group == self.damaged:
            raise CorruptData(f"group {group} is damaged")


def test_a_group_is_loaded_step_by_step_and_ends_with_its_last_row() -> None:
    source = Source({3: 3, 4: 0, 5: 2})
    loader = GroupLoader(source, source.rows)
    assert (loader.next_group, loader.rows_left, list(loader.left)) == (3, 5, [3, 5])
    loader.load_some()
    assert (source.story, loader.rows_left, loader.next_group) == (["3: [0, 1]"], 3, 3)
    loader.load_some()
    assert source.story[1:] == ["3: [2]", "3 loaded"]
    loader.load_some()
    assert source.story[3:] == ["5: [0, 1]", "5 loaded"]
    assert (loader.rows_left, loader.next_group, list(loader.left)) == (0, None, [])
    loader.load_some()
    assert len(source.story) == 5
    loader.close()


def test_a_step_may_go_on_over_several_groups() -> None:
    source = Source(dict.fromkeys(range(9), 2))
    loader = GroupLoader(source, source.rows, step_rows=6)
    loader.load_some()
    assert list(loader.left) == [3, 4, 5, 6, 7, 8]
    loader.settle()
    assert source.placed == {group: [0, 1] for group in range(9)}
    loader.close()


def test_rows_that_newer_levels_replace_are_not_waited_for() -> None:
    """The files have more rows of a group than it has entries."""
    source = Source({1: 2})
    loader = GroupLoader(source, {1: 5})
    loader.load_some()
    assert loader.rows_left == 3
    loader.load_some()
    assert (loader.rows_left, source.story[-1]) == (0, "1 loaded")
    loader.close()


def test_what_cannot_wait_is_loaded_now_also_when_it_has_begun() -> None:
    source = Source({0: 5, 1: 5, 2: 5})
    loader = GroupLoader(source, source.rows)
    loader.load_some()
    for group in (2, 0):
        loader.load(group)
    assert list(loader.left) == [1]
    assert source.placed == {0: [0, 1, 2, 3, 4], 2: [0, 1, 2, 3, 4]}
    loader.settle()
    assert source.placed[1] == [0, 1, 2, 3, 4], "each row once"
    loader.close()


def test_the_groups_that_come_next_are_read_ahead() -> None:
    source = Source(dict.fromkeys(range(5), 4))
    loader = GroupLoader(source, source.rows)
    loader.waits(4, 1)
    loader.load_some()
    for _ in range(AHEAD):
        assert source.needed.acquire(timeout=PATIENCE_S)
    assert source.needs == [0, 1], "of the one that was begun each step reads what it needs"
    loader.close()


def test_what_is_damaged_is_told_by_each_step_that_needs_it_and_never_counts_as_loaded() -> None:
    source = Source({0: 4, 1: 4}, damaged=1)
    loader = GroupLoader(source, source.rows)
    loader.load(0)
    assert source.placed == {0: [0, 1, 2, 3]}
    for _ in range(3):
        with pytest.raises(CorruptData, match="group 1 is damaged"):
            loader.load_some()
    with pytest.raises(CorruptData, match="group 1 is damaged"):
        loader.settle()
    assert list(loader.left) == [1]
    loader.close()
