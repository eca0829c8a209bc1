"""The pointer as clients of the store saw it: a register, whose history must have one order (Wing and Gong's search).

    write(7) ├────────┤            read -> 7 ├───┤            write(8) ├──────────── no answer: it may have happened, then or later, or never

A read counts from the moment at which its leader had the lock: what it restores from must hold for its term.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from tests.sim.laws import Law, require


@dataclass
class Call:
    value: int
    is_write: bool
    began_ms: int
    ended_ms: float = inf
    """A write that was never granted has no end."""


@dataclass
class History:
    calls: list[Call] = field(default_factory=list)

    def write(self, value: int, now_ms: int) -> Call:
        self.calls.append(Call(value, True, now_ms))
        return self.calls[-1]

    def read(self, value: int, began_ms: int, now_ms: int) -> None:
        self.calls.append(Call(value, False, began_ms, now_ms))

    def check(self) -> None:
        require(
            Law.POINTER, is_linearizable(self.calls), f"no order explains what the pointer was for whom: {self.calls}"
        )


def is_linearizable(calls: list[Call]) -> bool:
    """Whether some order of the calls, each at one moment between its beginning and its end, is that of a register that only grows."""
    answered = sum(1 << n for n, call in enumerate(calls) if call.ended_ms < inf)
    tried: set[tuple[int, int]] = set()
    open_states = [(0, 0)]
    while open_states:
        done, value = open_states.pop()
        if answered & ~done == 0:
            return True
        if (done, value) in tried:
            continue
        tried.add((done, value))
        left = [(n, call) for n, call in enumerate(calls) if not done >> n & 1]
        first_end = min(call.ended_ms for _, call in left)
        for n, call in left:
            if call.began_ms <= first_end and (call.value > value if call.is_write else call.value == value):
                open_states.append((done | 1 << n, call.value))
    return False
