"""What an operator uses in a test: a clock and timers that are set by hand, a store in memory, and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import xxhash

from tidegate.model.accumulators import UserAccumulator, check_known, merged, results, serialized
from tidegate.model.checkpoint import StateHandle
from tidegate.model.errors import CorruptData
from tidegate.model.values import Json


class MemoryStore:
    """A segment store and source in memory: contents are stored inline in their handles."""

    written_bytes = 0
    compresses = False

    def write(self, name_hint: str, parts: Iterable[bytes | memoryview], *, is_shared: bool = False) -> StateHandle:
        content = b"".join(bytes(part) for part in parts)
        self.written_bytes += len(content)
        return StateHandle(len(content), xxhash.xxh3_64_hexdigest(content), data=content)

    def read(self, handle: StateHandle) -> memoryview:
        assert handle.data is not None
        if xxhash.xxh3_64_hexdigest(handle.data) != handle.checksum:
            raise CorruptData(
                "the state in this snapshot is damaged: its checksum does not match; take the snapshot again"
            )
        return memoryview(handle.data)


@dataclass
class HandClock:
    """Both clocks of an operator, in ms, set by hand."""

    ms: int = 0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> float:
        return float(self.ms)


@dataclass
class HandTimers:
    """Processing-time timers that fire in their order when the clock is advanced."""

    clock: HandClock
    waiting: list[tuple[int, Callable[[int], None]]] = field(default_factory=list)

    def schedule(self, at_ms: int, callback: Callable[[int], None]) -> object:
        token = (at_ms, callback)
        self.waiting.append(token)
        return token

    def cancel(self, token: object) -> None:
        self.waiting = [waiting for waiting in self.waiting if waiting is not token]

    def advance_to(self, ms: int) -> None:
        while due := sorted((w for w in self.waiting if w[0] <= ms), key=lambda w: w[0]):
            self.cancel(due[0])
            self.clock.ms = max(self.clock.ms, due[0][0])
            due[0][1](due[0][0])
        self.clock.ms = ms


class Counts:
    """Metrics by name, of all operators together."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._watched: dict[str, Callable[[], float]] = {}
        self._accumulators: list[tuple[str, UserAccumulator]] = []

    def add(self, name: str, amount: int = 1) -> None:
        self._values[name] = self._values.get(name, 0) + amount

    def gauge(self, name: str, value: float) -> None:
        self._values[name] = value

    def watch(self, name: str, read: Callable[[], float]) -> None:
        self._watched[name] = read

    def accumulate(self, name: str, accumulator: UserAccumulator) -> None:
        check_known(name, accumulator)
        self._accumulators.append((name, accumulator))

    def all_values(self) -> dict[str, float]:
        return {**self._values, **{name: read() for name, read in self._watched.items()}}

    def accumulated(self) -> dict[str, Json]:
        """Returns the results of the accumulators by name, in the form in which a job returns them."""
        return results(merged(serialized({name: one}) for name, one in self._accumulators))
