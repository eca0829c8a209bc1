"""What is read of a file at once."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Block:
    """``data`` starts ``skip`` rows into what stands at ``start``; what is behind it begins ``next_skip`` rows into what stands at
    ``next_start``. ``side``: the tag of the side output that it is for. ``bad``: lines that were no rows."""

    data: pa.RecordBatch
    start: int
    skip: int
    next_start: int
    next_skip: int = 0
    side: str = ""
    bad: int = 0
