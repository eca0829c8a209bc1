"""What a snapshot makes for each entry does not start the collector of cycles, which would look through all state with the interpreter's lock."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from tests.unit.taskmanager.keyed_state.columns.test_keyed import Store
from tidegate.common import Types
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.keyed_state.heap.backend import KeyedStateBackend
from tidegate.taskmanager.spark.daemon import COLLECT_AFTER

ENTRIES = 40_000
PYTHONS_DEFAULT = (700, 10, 10)


@contextmanager
def collecting(after: tuple[int, int, int]) -> Iterator[list[int]]:
    """Yields the generations of the collections that come meanwhile."""
    found: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            found.append(about["generation"])

    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*after)
    gc.callbacks.append(note)
    try:
        yield found
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
        gc.unfreeze()


def collections_of_a_snapshot(backend: KeyedStateBackend, after: tuple[int, int, int]) -> list[int]:
    frozen = backend.freeze()
    with collecting(after) as found:
        frozen.write(Store())
    frozen.release()
    return found


def test_a_snapshot_hardly_starts_the_collector() -> None:
    backend = KeyedStateBackend("counts", KeyGroupRange(0, 15), Types.LONG())
    table = backend.table("pairs", "reducing", Types.TUPLE([Types.LONG(), Types.LONG()]))
    for key in range(ENTRIES):
        table.write(key % 16, (key, None), (key, 2 * key))
    assert len(collections_of_a_snapshot(backend, PYTHONS_DEFAULT)) > 10, "else this test shows nothing"
    assert len(collections_of_a_snapshot(backend, COLLECT_AFTER)) <= 2
