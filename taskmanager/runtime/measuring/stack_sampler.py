"""Samples the stacks of a subtask's thread for a while, for a flame graph.

Nothing is sampled without a request, and then a bounded number of times. Frames outside of the mailbox loop and of what waits for
its next step (Spark's worker, the start of the process) are left out, since they are the same in every sample.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType

LOOP = "tidegate.taskmanager.runtime.subtask"
"""The module whose frames are the outermost that are shown."""
LAUNCH = "tidegate.taskmanager.runtime.launch"
"""The module of an attempt's outermost frames, below which a sample begins when no frame of the loop is on the stack."""
_ON_CPU = 0.5
"""Share of the time since the last sample from which the thread counts as computing."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A stack and how often it was sampled. ``frames``: outermost first. ``on_cpu``: the thread was computing, not waiting."""

    frames: tuple[str, ...]
    count: int
    on_cpu: bool


def sample_stacks(
    ident: int, samples: int, delay_ms: float, depth: int, sleep: Callable[[float], object] = time.sleep
) -> list[Sampled]:
    """Samples the stacks of the thread ``ident``; ends early when the thread has ended. ``depth``: most innermost frames that are kept."""
    found: Counter[tuple[tuple[str, ...], bool]] = Counter()
    if ident not in sys._current_frames():
        return []  # its clock must not be asked for: the system takes the id for an address
    spent = _cpu_clock(ident)
    before_cpu, before = spent(), time.perf_counter()
    for _ in range(samples):
        sleep(delay_ms / 1000)
        frame = sys._current_frames().get(ident)
        if frame is None:
            break
        now_cpu, now = spent(), time.perf_counter()
        found[_frames(frame)[-depth:], now_cpu - before_cpu >= _ON_CPU * (now - before)] += 1
        before_cpu, before = now_cpu, now
    return [Sampled(frames, count, on_cpu) for (frames, on_cpu), count in found.items()]


def _cpu_clock(ident: int) -> Callable[[], float]:
    """Returns a clock of the processor time of a thread, in seconds. Where the system has none, every thread seems to compute."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.perf_counter
    clock = time.pthread_getcpuclockid(ident)
    return lambda: time.clock_gettime(clock)


def _frames(innermost: FrameType) -> tuple[str, ...]:
    found: list[str] = []
    modules: list[str] = []
    frame: FrameType | None = innermost
    while frame is not None:
        module = str(frame.f_globals.get("__name__", "?"))
        modules.append(module)
        found.append(f"{module}.{frame.f_code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return _from_the_loop(found[::-1], modules[::-1])


def _from_the_loop(frames: Sequence[str], modules: Sequence[str]) -> tuple[str, ...]:
    if LOOP in modules:
        return tuple(frames[modules.index(LOOP) :])
    inside = [place for place, module in enumerate(modules) if module == LAUNCH]
    return tuple(frames[inside[-1] + 1 :]) if inside else tuple(frames)
