"""What an expression needs besides its rows, and how its evaluation fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from tidegate.model.errors import UserError
from tidegate.plan.logical_types import LogicalType

PythonFunction: TypeAlias = Callable[..., "pa.Array"]
"""A registered function: it takes an Arrow array for each argument, all of one length, and returns an array of that length."""


@runtime_checkable
class TypedFunction(Protocol):
    """A registered function that asks for the types of a call."""

    def bind(self, types: Sequence[LogicalType], result: LogicalType) -> Callable[[int, Sequence[pa.Array]], pa.Array]:
        """The function for one call: of the number of rows and the arguments as arrays, an array of as many results of the type ``result``."""


class EvaluationError(UserError):
    """A value for which Flink's function fails too, such as a division by zero or a text that is no number. The same data fails again,
    so the job is not restarted."""

    code = "expression"


def wall_clock_ms() -> int:
    """Returns the time of the machine, ms since 1970."""
    return time.time_ns() // 1_000_000


def no_watermark() -> int | None:
    """Returns ``None``: there was no watermark yet."""
    return None


@dataclass(frozen=True)
class EvaluationContext:
    """- ``time_zone``: the session's, by its name in the tz database (``table.local-time-zone``);
    - ``now_ms``: the wall clock, ms since 1970 (CURRENT_TIMESTAMP, PROCTIME, UNIX_TIMESTAMP), asked once for each batch;
    - ``functions``: the registered functions by the name that the plan has for them;
    - ``watermark_ms``: the current watermark, or ``None`` before the first (CURRENT_WATERMARK).
    """

    time_zone: str = "UTC"
    now_ms: Callable[[], int] = wall_clock_ms
    functions: Mapping[str, PythonFunction | TypedFunction] = field(default_factory=dict)
    watermark_ms: Callable[[], int | None] = no_watermark
