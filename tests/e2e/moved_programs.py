"""The pairs of ``examples/from_spark``: input for both, what they must write, and what they wrote.

The input are files of taps in the order of event time, each a minute long. Taps within a file lie in any order, at most 9 s apart from their place, so
that none is late; some come twice.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.parquet as pq

EXAMPLES = Path(__file__).parents[2] / "examples" / "from_spark"
MINUTE_MS = 60_000
DELAY_MS = 10_000
"""Every program lets its watermark lie so far behind the newest tap."""
FIRST_MS = 1_767_268_800_000
"""2026-01-01 12:00 in UTC."""
SEED = 20
MOST_TAPS = 10_000_000
"""More than any file has, so that no two share an id."""

Row = tuple[Any, ...]
Tap = tuple[int, str, str, int, int]
"""id, card, station, cents, ms."""


def taps_of(number: int, count: int) -> list[Tap]:
    """The taps of a file. Every fifth is of a card that is used in this file only; every tenth comes twice."""
    chosen = random.Random(SEED * 1000 + number)
    found: list[Tap] = []
    for n in range(count):
        place = n * MINUTE_MS // count
        at = FIRST_MS + number * MINUTE_MS + min(max(place + chosen.randint(-9_000, 9_000), 0), MINUTE_MS - 100)
        card = f"once-{number}-{n % 20}" if n % 5 == 0 else f"card-{n % 10}"
        found.append((number * MOST_TAPS + n, card, ("Centraal", "Zuid", "Noord")[n % 3], n % 400 - 20, at))
        if n % 10 == 0:
            found.append(found[-1])
    return found


def write_taps(directory: Path, number: int, taps: Sequence[Tap]) -> None:
    """Under its name when it is whole."""
    columns = list(zip(*taps, strict=True))
    table = pa.table(
        {
            "id": pa.array(columns[0], pa.int64()),
            "card": columns[1],
            "station": columns[2],
            "cents": pa.array(columns[3], pa.int64()),
            "at": pa.array([ms * 1000 for ms in columns[4]], pa.timestamp("us", "UTC")),
        }
    )
    hidden = directory / f".{number}"
    pq.write_table(table, hidden)
    hidden.rename(directory / f"{number:05}.parquet")


def _paid(taps: Sequence[Tap]) -> list[Row]:
    return [tap[:4] for tap in taps if tap[3] > 0]


def _windows(taps: Sequence[Tap]) -> list[Row]:
    watermark = max(tap[4] for tap in taps) - DELAY_MS
    counted: Counter[tuple[int, str]] = Counter()
    taken: Counter[tuple[int, str]] = Counter()
    for _, _, station, cents, at in taps:
        key = at // MINUTE_MS * MINUTE_MS, station
        counted[key] += 1
        taken[key] += cents
    return [(*key, counted[key], taken[key]) for key in counted if key[0] + MINUTE_MS <= watermark]


def _distinct(taps: Sequence[Tap]) -> list[Row]:
    return [tap[:4] for tap in dict.fromkeys(taps)]


def _zones(taps: Sequence[Tap]) -> list[Row]:
    zones = {"Centraal": 1, "Zuid": 2}
    return [(tap[0], zones[tap[2]]) for tap in taps if tap[2] in zones]


def _silent(taps: Sequence[Tap]) -> list[Row]:
    watermark = max(tap[4] for tap in taps) - DELAY_MS
    times: dict[str, list[int]] = {}
    for tap in taps:
        times.setdefault(tap[1], []).append(tap[4])
    found: list[Row] = []
    for card, unordered in times.items():
        ordered = sorted(unordered)
        for time, after in zip(ordered, [*ordered[1:], sys.maxsize], strict=True):
            if time + MINUTE_MS < min(after, watermark):
                found.append((card, time))
    return found


def _milestones(taps: Sequence[Tap]) -> list[Row]:
    counted = Counter(tap[1] for tap in taps)
    return [(card, 10 * n) for card, count in counted.items() for n in range(1, count // 10 + 1)]


@dataclass(frozen=True)
class Pair:
    """``expected``: what both have written when the taps were read. ``by_batch``: each batch has a directory of its own."""

    name: str
    columns: tuple[str, ...]
    expected: Callable[[Sequence[Tap]], list[Row]]
    by_batch: bool = False

    @property
    def spark(self) -> ModuleType:
        return _program(f"{self.name}_spark")

    @property
    def tidegate(self) -> ModuleType:
        return _program(self.name)


PAIRS = [
    Pair("foreach_batch", ("id", "card", "station", "cents"), _paid, by_batch=True),
    Pair("windows", ("start_ms", "station", "taps", "cents"), _windows),
    Pair("distinct", ("id", "card", "station", "cents"), _distinct),
    Pair("table_join", ("id", "zone"), _zones),
    Pair("silence", ("card", "since_ms"), _silent),
    Pair("milestones", ("card", "taps"), _milestones),
]


def _program(name: str) -> ModuleType:
    """Its functions travel with the job, as those of a script do."""
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        cloudpickle.register_pickle_by_value(module)
        pysparks: Any = importlib.import_module("pyspark.cloudpickle")  # a copy with a register of its own
        pysparks.register_pickle_by_value(module)
    return module


def written(pair: Pair, directory: Path) -> list[Path]:
    """The files that readers of the output see: in a directory of Spark's own sink those that its log names, in one of a batch those
    that are whole."""
    log = directory / "_spark_metadata"
    if log.is_dir():
        return [Path(name) for entry in log.iterdir() if not entry.name.startswith(".") for name in _added(entry)]
    found: list[Path] = []
    for place, inner, names in os.walk(directory):  # which passes over a directory that goes meanwhile
        inner[:] = [name for name in inner if not name.startswith(("_", "."))]
        if not pair.by_batch or "_SUCCESS" in names:
            found += [Path(place, name) for name in names if name.endswith(".parquet") and not name.startswith(".")]
    return found


def _added(entry: Path) -> list[str]:
    lines = entry.read_text().splitlines()[1:]
    return [json.loads(line)["path"].removeprefix("file://") for line in lines]


class Output:
    """What a program wrote, each file read once."""

    def __init__(self, pair: Pair, directory: Path) -> None:
        self.pair = pair
        self.directory = directory
        self._rows: dict[Path, list[Row]] = {}
        self._counts: dict[Path, int] = {}

    def rows(self) -> list[Row]:
        for path in written(self.pair, self.directory):
            if path not in self._rows:
                table = pq.read_table(path, columns=list(self.pair.columns), partitioning=None)
                self._rows[path] = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return sorted(row for found in self._rows.values() for row in found)

    def count(self) -> int:
        """How many rows there are, which costs less than to read them."""
        for path in written(self.pair, self.directory):
            if path not in self._counts:
                self._counts[path] = pq.read_metadata(path).num_rows
        return sum(self._counts.values())
