"""Stacks of a thread, sampled from another one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tidegate.taskmanager.runtime.measuring.stack_sampler import sample_stacks


class Worker:
    """A thread that waits in ``waits``, or computes in ``computes``, until it has to end."""

    def __init__(self, work: Callable[[Worker], None]) -> None:
        self.ends = threading.Event()
        self.is_there = threading.Event()
        self.thread = threading.Thread(target=lambda: work(self), daemon=True)

    def __enter__(self) -> int:
        self.thread.start()
        assert self.is_there.wait(30)
        assert self.thread.ident is not None
        return self.thread.ident

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        self.thread.join(30)


def waits(worker: Worker) -> None:
    worker.is_there.set()
    worker.ends.wait()


def computes(worker: Worker) -> None:
    worker.is_there.set()
    while not worker.ends.is_set():
        sum(range(1000))


def test_a_thread_that_waits_is_seen_where_it_waits_and_not_on_a_processor() -> None:
    with Worker(waits) as ident:
        (found,) = sample_stacks(ident, 5, 1, 100)
    assert found.count == 5
    assert not found.on_cpu
    assert any(frame.startswith(f"{__name__}.waits:") for frame in found.frames)
    assert found.frames[-1].startswith("threading.Condition.wait:")


def test_a_thread_that_computes_is_seen_at_its_lines() -> None:
    with Worker(computes) as ident:
        found = sample_stacks(ident, 5, 1, 1)
    assert sum(each.count for each in found) == 5
    assert {len(each.frames) for each in found} == {1}  # the innermost alone is kept
    assert any(each.frames[0].startswith(f"{__name__}.computes:") for each in found)


def test_a_thread_that_has_ended_has_no_stacks() -> None:
    assert sample_stacks(-1, 5, 1, 10, sleep=lambda _: None) == []
