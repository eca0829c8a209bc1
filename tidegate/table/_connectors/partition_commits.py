"""Partition commits of file tables: when a partition is complete, and how readers learn of it, by a file ``_SUCCESS`` in its directory.

    sink of the rows ─▶ reports ─▶ one subtask: partitions that wait ── all have committed n: those of n whose time has come ─▶ _SUCCESS

A partition waits, as state, until the sink has committed its part files and its time has come. Both are looked at whenever all subtasks of the
sink have committed a checkpoint. One that gets rows again waits again. At the end of the input the time of all has come.
Follows Flink's ``PartitionCommitter``, ``ProcTimeCommitTrigger`` and ``PartitionTimeCommitTrigger``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Sink, SinkContext, SinkWriter
from tidegate.connectors.commit_reports import EOI, CommitTracker, rows_of
from tidegate.connectors.files.file_system import absolute
from tidegate.connectors.files.success_files import write_success_files
from tidegate.functions.sql.scalar.calendar import days_from_civil, to_instant, zone
from tidegate.functions.sql.scalar.time_patterns import read_strict, token_letters
from tidegate.model.errors import InvalidJob, UserError
from tidegate.model.units import parse_duration_ms
from tidegate.model.values import StateValue
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.table._connectors.partitions import values_in
from tidegate.table._connectors.shape import TableShape

POLICY: Final = "sink.partition-commit.policy.kind"
TRIGGER: Final = "sink.partition-commit.trigger"
DELAY: Final = "sink.partition-commit.delay"
SUCCESS_FILE: Final = "sink.partition-commit.success-file.name"
ZONE: Final = "sink.partition-commit.watermark-time-zone"
PATTERN: Final = "partition.time-extractor.timestamp-pattern"
FORMATTER: Final = "partition.time-extractor.timestamp-formatter"
EXTRACTOR: Final = "partition.time-extractor.kind"
OPTIONS: Final = frozenset({POLICY, TRIGGER, DELAY, SUCCESS_FILE, ZONE, PATTERN, FORMATTER, EXTRACTOR})
TRIGGERS: Final = ("process-time", "partition-time")
_TIME: Final = re.compile(
    r"(?P<date>(-?\d{1,10})-(-?\d{1,2})-(-?\d{1,2}))(?: (-?\d{1,2}):(-?\d{1,2}):(-?\d{1,2})(?:\.(\d{1,9}))?)?"
)
_OFFSET: Final = re.compile(r"GMT([+-])(\d{2}):(\d{2})")
_NONE: Final = -(2**63)
"""The watermark before the first one arrives."""


@dataclass(frozen=True)
class PartitionTimes:
    """Extracts the time of a partition from the values in its path (Flink: ``DefaultPartTimeExtractor``). ``pattern``: a text with ``$key`` for the
    value of a partition key; ``None``: the first value. ``formatter``: a pattern of Java's ``DateTimeFormatter``."""

    keys: tuple[str, ...]
    pattern: str | None = None
    formatter: str | None = None

    def of(self, values: Sequence[str]) -> int:
        """Returns the local time of a partition in ms since 1970. Raises ``UserError`` for a text that is not a time."""
        text = values[0] if self.pattern is None else self.pattern
        if self.pattern is not None:
            for key, value in zip(self.keys, values, strict=True):
                text = text.replace(f"${key}", value)
        found = _usual(text) if self.formatter is None else _formatted(self.formatter, text)
        if found is None:
            raise UserError(
                f"Text '{text}' could not be parsed: it is the time of the partition {dict(zip(self.keys, values, strict=True))}; set "
                f"'{PATTERN}' and '{FORMATTER}' so that the text is a time"
            )
        return found


def _usual(text: str) -> int | None:
    """Parses a date with an optional time of day, in ms since 1970; a month, day or hour out of range carries over. Returns ``None`` for other texts."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[1:7])
    months = year * 12 + month - 1
    days = int(days_from_civil(months // 12, months % 12 + 1, 1)) + day - 1
    ms = int((found[8] or "").ljust(3, "0")[:3])
    return (days * 86_400 + hour * 3600 + minute * 60 + second) * 1000 + ms


def _formatted(formatter: str, text: str) -> int | None:
    letters = token_letters(formatter)
    has_date = letters & set("yu") and (letters >= {"M", "d"} or letters >= {"L", "d"})
    nanos = read_strict(formatter, text) if has_date else None
    return None if nanos is None else nanos // 1_000_000


@dataclass(frozen=True)
class CommitTrigger:
    """Decides when a partition is committed: ``delay_ms`` after its first row, or, with ``times``, once the watermark (as local time in ``zone``) is
    that much past its own time."""

    delay_ms: int = 0
    times: PartitionTimes | None = None
    zone: str = "UTC"

    def is_due(self, path: str, since_ms: int, now_ms: int, watermark: int) -> bool:
        """Returns whether a partition is to be committed. Raises ``UserError`` for a partition without a time."""
        if self.times is None:
            return not self.delay_ms or now_ms > since_ms + self.delay_ms
        local_ms = self.times.of(values_in(path))
        return watermark > _instant(local_ms, self.zone) + self.delay_ms


def _instant(local_ms: int, name: str) -> int:
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        return local_ms - int(f"{offset[1]}1") * (int(offset[2]) * 60 + int(offset[3])) * 60_000
    return int(to_instant(np.array([local_ms // 1000], np.int64), name)[0]) * 1000 + local_ms % 1000


@dataclass(frozen=True)
class PartitionCommits:
    """The partition commit options of a table. ``name``: of the success file."""

    name: str
    trigger: CommitTrigger


def partition_commits(shape: TableShape, options: Mapping[str, str]) -> PartitionCommits | None:
    """Returns the partition commit options of a table; ``None``: its partitions are not committed. Raises ``InvalidJob`` for what is not supported,
    with Flink's message where Flink refuses it too."""
    name = options.get(ZONE, "UTC")
    if not _is_zone(name):
        raise InvalidJob(
            f"Invalid time zone for '{ZONE}'. The value should be a Time Zone Database (TZDB) ID such as 'America/Los_Angeles' to include daylight saving "
            "time. Fixed offsets are supported using 'GMT-03:00' or 'GMT+03:00'. Or use 'UTC' without time zone and daylight saving time."
        )
    if options.get(EXTRACTOR, "default") != "default":
        raise InvalidJob(
            f"'{EXTRACTOR}' = '{options[EXTRACTOR]}' needs a Java class, which tidegate cannot load: use 'default'"
        )
    if POLICY not in options:
        return None
    for kind in options[POLICY].split(","):
        match kind.lower():
            case "success-file":
                pass
            case "metastore":
                raise InvalidJob(
                    "Can not configure a 'metastore' partition commit policy for a file system table. You can only configure 'metastore' partition commit "
                    "policy for a hive table."
                )
            case "custom":
                raise InvalidJob(
                    f"'{POLICY}' = 'custom' needs a Java class, which tidegate cannot load: use 'success-file'"
                )
            case _:
                raise InvalidJob(f"Unsupported policy: {kind}: set '{POLICY}' to 'success-file'")
    if FORMATTER in options:
        token_letters(options[FORMATTER])
    is_by_time = options.get(TRIGGER, TRIGGERS[0]).lower() == TRIGGERS[1]
    times = PartitionTimes(shape.partition_keys, options.get(PATTERN), options.get(FORMATTER)) if is_by_time else None
    return PartitionCommits(
        options.get(SUCCESS_FILE, "_SUCCESS"),
        CommitTrigger(parse_duration_ms(options.get(DELAY, "0 ms")), times, name),
    )


class PartitionCommitSink(Sink):
    """A sink, with one subtask, that commits the partitions of a file table from the reports of its file sink. ``directory``: of the table."""

    def __init__(self, directory: str, commits: PartitionCommits) -> None:
        self._directory = absolute(directory)
        self._commits = commits

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        return PartitionCommitter(self._directory, self._commits, context, state)


class PartitionCommitter(SinkWriter):
    """Tracks partitions with uncommitted rows, each with the time at which its first row was reported, and commits those that are due. State: ``[path,
    ms since 1970]`` of each."""

    works_on = "arrow"
    takes_reports = True

    def __init__(
        self, directory: str, commits: PartitionCommits, context: SinkContext, state: Sequence[StateValue]
    ) -> None:
        self._directory = directory
        self._commits = commits
        self._now_ms = context.now_ms
        restored = context.restored_checkpoint_id or 0
        self._tracker = CommitTracker(restored)
        self._completed = restored
        self._visible: dict[str, int] = dict(state)
        """Those whose part files are all visible: their time has not come."""
        self._hidden: dict[int, dict[str, int]] = {}
        """Those with part files of a checkpoint that not all subtasks have committed, by checkpoint."""
        self._new: dict[str, int] = {}
        """Those with part files behind the last checkpoint."""
        self._watermark = _NONE
        self._watermarks: dict[int, int] = {}
        """By checkpoint, as it was at the barrier."""
        self._has_ended = False

    def write(self, batch: Batch) -> None:
        """Takes reports of the file sink. Raises ``UserError`` for a partition without a time, and ``StorageError``."""
        assert isinstance(batch, ArrowBatch)
        now_ms = self._now_ms()
        for subtask, subtasks, checkpoint_id, place in rows_of(batch):
            if place is not None:
                self._new.setdefault(place, now_ms)
            if checkpoint_id is not None:
                self._complete(self._tracker.add(subtask, subtasks, checkpoint_id), now_ms)

    def write_watermark(self, timestamp_ms: int) -> None:
        self._watermark = timestamp_ms

    def flush(self, end_of_input: bool) -> None:
        self._has_ended = self._has_ended or end_of_input

    def snapshot_state(self, checkpoint_id: int) -> list[StateValue]:
        self._hidden[checkpoint_id], self._new = self._new, {}
        self._watermarks[checkpoint_id] = self._watermark
        pending = _earliest([self._visible, *self._hidden.values()])
        return [[path, since_ms] for path, since_ms in pending.items()]

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Moves the reports of an aborted checkpoint to the next one, which will commit their files."""
        self._new = _earliest([self._hidden.pop(checkpoint_id, {}), self._new])
        self._watermarks.pop(checkpoint_id, None)

    def _complete(self, checkpoint_id: int, now_ms: int) -> None:
        """Commits the partitions that are due once all part files up to a checkpoint are visible."""
        if checkpoint_id <= self._completed:
            return
        self._completed = checkpoint_id
        found = [self._hidden.pop(n) for n in sorted(self._hidden) if n <= checkpoint_id]
        if checkpoint_id == EOI:
            found.append(self._new)
            self._new = {}
        self._visible = _earliest([self._visible, *found])
        watermark = [self._watermarks.pop(n) for n in sorted(self._watermarks) if n <= checkpoint_id][-1:]
        trigger = self._commits.trigger
        due = [
            path
            for path, since_ms in self._visible.items()
            if self._has_ended or trigger.is_due(path, since_ms, now_ms, watermark[0] if watermark else _NONE)
        ]
        write_success_files(self._directory, self._commits.name, due)
        for path in due:
            del self._visible[path]


def _earliest(found: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Merges mappings of path to time; a path that is in several keeps the value of the first."""
    merged: dict[str, int] = {}
    for one in found:
        for path, since_ms in one.items():
            merged.setdefault(path, since_ms)
    return merged


def _is_zone(name: str) -> bool:
    try:
        zone(name)
    except ValueError:
        return _OFFSET.fullmatch(name) is not None
    return True
