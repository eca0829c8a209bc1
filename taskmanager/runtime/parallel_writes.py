"""The states of a subtask's operators, written at the same time: what takes long is waiting for disks."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from taskmanager.state.base import FrozenState, SegmentStore
from tidegate.model.checkpoint import OperatorSnapshot


def write_all(states: Sequence[FrozenState], store: SegmentStore) -> list[OperatorSnapshot]:
    """Each state in a thread of its own, the first in the caller's. Returns, or raises the first error, when all are done."""
    found: list[OperatorSnapshot | BaseException | None] = [None] * len(states)

    def write(index: int) -> None:
        try:
            found[index] = states[index].write(store)
        except BaseException as error:  # noqa: BLE001  driver: raised again below
            found[index] = error

    threads = [
        threading.Thread(target=write, args=(index,), name=f"snapshot-writer-{index}", daemon=True)
        for index in range(1, len(states))
    ]
    for thread in threads:
        thread.start()
    write(0)
    for thread in threads:
        thread.join()
    snapshots: list[OperatorSnapshot] = []
    for one in found:
        if isinstance(one, BaseException):
            raise one
        assert one is not None
        snapshots.append(one)
    return snapshots
