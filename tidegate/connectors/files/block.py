"""The block of a file that is read at once."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Block:
    """A block of rows of a file. ``data`` starts ``skip`` rows behind position ``start``; what follows starts ``next_skip`` rows behind ``next_start``.
    ``side``: the tag of its side output. ``bad``: how many lines were not rows."""

    data: pa.RecordBatch
    start: int
    skip: int
    next_start: int
    next_skip: int = 0
    side: str = ""
    bad: int = 0
