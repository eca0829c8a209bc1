"""Statements over small files, with the plans that Flink 2.3.0 compiled for a ``print`` table and the changelogs that it gave: ``recorded_changelogs.json.xz``,
``recorded_time.json.xz`` (orders, joins and windows by time, ``OVER`` in other orders) and ``recorded_batch.json.xz`` (batch mode).

Recorded with Flink's mini cluster at parallelism 1, ``collectInternal`` and its own text of each value, ``null`` for NULL. ``order``: ``exact`` where three
runs gave the same changelog, otherwise ``final``, the rows that were left. With ``error`` the statement failed when it ran; with neither it was planned alone.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tidegate.plan.exec_node_graph import ExecNodeGraph, decode_plan

Change = tuple[str, tuple[str | None, ...]]


@dataclass(frozen=True)
class Statement:
    """``files`` are the rows of the files that it reads, by name."""

    name: str
    plan: ExecNodeGraph
    files: Mapping[str, Sequence[Sequence[str]]]
    options: Mapping[str, str]
    is_exact: bool
    changes: Sequence[Change]
    error: str | None

    @property
    def fails(self) -> bool:
        return self.error is not None

    @property
    def zone(self) -> str:
        return self.options.get("table.local-time-zone", "UTC")


def names(recording: str = "recorded_changelogs") -> list[str]:
    return sorted(_recorded(recording)["statements"])


def statement(name: str, recording: str = "recorded_changelogs") -> Statement:
    recorded = _recorded(recording)
    found = recorded["statements"][name]
    return Statement(
        name=name,
        plan=decode_plan(json.dumps(found["plan"])),
        files=recorded["files"],
        options=found.get("options", {}),
        is_exact=found.get("order") == "exact",
        changes=[(kind, tuple(values)) for kind, values in found.get("changes", ())],
        error=found.get("error"),
    )


@cache
def _recorded(recording: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lzma.decompress((Path(__file__).parent / f"{recording}.json.xz").read_bytes()))
    return found
