"""The context of evaluation, and the error of a failed one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from tidegate.model.errors import UserError
from tidegate.plan.logical_types import LogicalType

PythonFunction: TypeAlias = Callable[..., "pa.Array"]
"""A registered function, which takes an Arrow array for each argument and returns an array of the same length."""


@runtime_checkable
class TypedFunction(Protocol):
    """A registered function that depends on the types of a call."""

    def bind(self, types: Sequence[LogicalType], result: LogicalType) -> Callable[[int, Sequence[pa.Array]], pa.Array]:
        """Returns the function for one call, which takes the number of rows and the argument arrays and returns an array of type ``result``."""


class EvaluationError(UserError):
    """A value for which Flink's function fails too, such as a division by zero or an invalid number. The same data fails again, so the job is not
    restarted."""

    code = "expression"


def wall_clock_ms() -> int:
    """Returns the wall clock, in ms since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class EvaluationContext:
    """- ``time_zone``: the session's, by its name in the tz database (``table.local-time-zone``);
    - ``now_ms``: the wall clock, ms since 1970 (CURRENT_TIMESTAMP, PROCTIME, UNIX_TIMESTAMP), asked once for each batch;
    - ``functions``: the registered functions by the name that the plan has for them;
    - ``watermark_ms``: returns the current watermark, or ``None`` before the first (CURRENT_WATERMARK). Without it that function is refused.
    """

    time_zone: str = "UTC"
    now_ms: Callable[[], int] = wall_clock_ms
    functions: Mapping[str, PythonFunction | TypedFunction] = field(default_factory=dict)
    watermark_ms: Callable[[], int | None] | None = None
