"""The threads that write snapshots: one for the asynchronous parts, in their order, and one for each further operator.

The states of a subtask's operators are written in parallel, since most of the time is spent waiting for disks. The threads are kept from one snapshot to the
next, since starting one takes milliseconds while the subtask computes. They are daemon threads, so that a store that hangs does not keep a canceled subtask
alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue

from tidegate.model.checkpoint import OperatorSnapshot
from tidegate.taskmanager.runtime.background import BackgroundThread, Done, Work
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.state.ports import FrozenState, SegmentStore


class SnapshotThreads:
    """Implements ``SnapshotWriter`` by one thread for the asynchronous parts and further ones for the operators' states."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._thread = BackgroundThread("snapshot-writer", mailbox)
        self._parallel = ParallelWriter()

    def submit(self, work: Work, done: Done) -> None:
        self._thread.submit(work, done)

    def write_states(self, states: Sequence[FrozenState], store: SegmentStore) -> list[OperatorSnapshot]:
        return self._parallel.write_all(states, store)

    def close(self, timeout_ms: float) -> bool:
        is_idle = self._thread.close(timeout_ms)
        self._parallel.close()
        return is_idle


class ParallelWriter:
    """Writes several states at the same time. ``write_all`` must be called from one thread at a time."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = 0

    def write_all(self, states: Sequence[FrozenState], store: SegmentStore) -> list[OperatorSnapshot]:
        """Writes each state in a thread of its own, the first in the caller's. Returns the snapshots in order, or raises the first error, after all
        are done.
        """
        found: list[OperatorSnapshot | BaseException | None] = [None] * len(states)
        ended: SimpleQueue[None] = SimpleQueue()

        def write(index: int) -> None:
            try:
                found[index] = states[index].write(store)
            except BaseException as error:  # noqa: BLE001  driver: raised again below
                found[index] = error
            ended.put(None)

        for index in range(1, len(states)):
            self._start_up_to(index)
            self._work.put(partial(write, index))
        write(0)
        for _ in states:
            ended.get()
        snapshots: list[OperatorSnapshot] = []
        for one in found:
            if isinstance(one, BaseException):
                raise one
            assert one is not None
            snapshots.append(one)
        return snapshots

    def close(self) -> None:
        """Ends the threads after the writes that are under way."""
        for _ in range(self._threads):
            self._work.put(None)
        self._threads = 0

    def _start_up_to(self, count: int) -> None:
        while self._threads < count:
            self._threads += 1
            threading.Thread(target=self._run, name=f"snapshot-writer-{self._threads}", daemon=True).start()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work
