"""Compares two checkpoints: entries that were added, removed, or have another value.

An entry of keyed state is known by its key, window or namespace, and time (of a timer); elements of operator state have no
names, so they are added or removed only. Pickled values are compared by their bytes.

Key groups whose segments are the same in both (by checksum) are not read. Others are compared key group by key group, so that
only the segments (with all their levels) and the entries of one key group are in memory at a time; with different max
parallelisms all groups are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa

from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.values import FieldValue
from tidegate.state_reader.checkpoint import Checkpoint, Operator, State, joined
from tidegate.state_reader.rows import element_value, readable
from tidegate.state_reader.segments import is_msgpack
from tidegate.store.levels import as_one, stacks
from tidegate.wire.state_columns import ELEMENT, KEY_GROUP, is_identity

EXAMPLES = 3
JOIN_ROWS = 256
"""The rows of a key group from which on Arrow first removes equal rows."""

Row = Mapping[str, FieldValue]


@dataclass(slots=True)
class StateDifference:
    """The differences of one state: counts, and the first examples as dicts of the differing rows (``changed``: before and after)."""

    operator_id: str
    operator: str
    state: str
    before: int = 0
    """The rows in the first checkpoint."""
    after: int = 0
    added: int = 0
    removed: int = 0
    changed: int = 0
    added_examples: list[Row] = field(default_factory=list)
    removed_examples: list[Row] = field(default_factory=list)
    changed_examples: list[tuple[Row, Row]] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        """Whether the state is equal in both checkpoints."""
        return not (self.added or self.removed or self.changed)


def compare(first: Checkpoint, second: Checkpoint, examples: int = EXAMPLES) -> Iterator[StateDifference]:
    """Yields one difference for each state of either checkpoint, also for equal ones. Operators are matched by id. Raises ``CorruptData``,
    ``StorageError``."""
    befores = {operator.described.operator_id: operator for operator in first.operators}
    afters = {operator.described.operator_id: operator for operator in second.operators}
    for operator_id in dict.fromkeys((*befores, *afters)):
        before, after = befores.get(operator_id), afters.get(operator_id)
        either = after or before
        assert either is not None
        old, new = _by_name(before), _by_name(after)
        for name in dict.fromkeys((*old, *new)):
            found = StateDifference(operator_id, either.title, name[0])
            _compare_state(_Side(first, before, old.get(name)), _Side(second, after, new.get(name)), found, examples)
            yield found


@dataclass(frozen=True, slots=True)
class _Side:
    checkpoint: Checkpoint
    operator: Operator | None
    state: State | None

    @property
    def rows(self) -> int:
        return self.checkpoint.rows_in(self.state) if self.state else 0

    @property
    def segments(self) -> tuple[SegmentHandle, ...]:
        return self.state.segments if self.state else ()

    @property
    def max_parallelism(self) -> int | None:
        return self.operator.described.max_parallelism if self.operator else None

    def elements(self) -> _Elements:
        found = _Elements(Counter(), {})
        for table in self.checkpoint.tables_of(self.state, type_names=False) if self.state else ():
            field = table.schema.field(ELEMENT)
            for value in table[ELEMENT].to_pylist():
                identity = _frozen(value)
                found.counts[identity] += 1
                found.shown.setdefault(identity, (value, field))
        return found


@dataclass(frozen=True, slots=True)
class _Elements:
    """Counts of equal elements of operator state, and one of each as it is stored."""

    counts: Counter[object]
    shown: dict[object, tuple[FieldValue, pa.Field]]

    def rows(self, identities: Iterable[object], most: int) -> list[Row]:
        return [{ELEMENT: _element(*self.shown[identity])} for identity in islice(identities, most)]


def _by_name(operator: Operator | None) -> dict[tuple[str, bool], State]:
    return {(state.name, state.is_keyed): state for state in operator.states if not state.channels} if operator else {}


def _compare_state(before: _Side, after: _Side, found: StateDifference, examples: int) -> None:
    found.before, found.after = before.rows, after.rows
    if not (before.segments or after.segments):
        _compare_elements(before.elements(), after.elements(), found, examples)
        return
    left, right = list(before.segments), list(after.segments)
    grouped = before.max_parallelism == after.max_parallelism or None in (before.max_parallelism, after.max_parallelism)
    for old, new in _pairs(_Groups(before.checkpoint, left), _Groups(after.checkpoint, right), grouped):
        if old is not None and new is not None and old.equals(new):
            continue
        _compare_rows(old, new, found, examples)


class _Groups:
    """Rows by key group; a segment is read at the first of its groups, and released after the last."""

    def __init__(self, checkpoint: Checkpoint, segments: list[SegmentHandle]) -> None:
        self._checkpoint = checkpoint
        self._segments = segments
        self._open: dict[int, pa.Table] = {}

    @property
    def groups(self) -> set[int]:
        """The key groups with rows."""
        return {
            segment.key_groups.start + i
            for segment in self._segments
            for i in range(segment.key_groups.size)
            if segment.offsets[i + 1] > segment.offsets[i]
        }

    def rows(self, group: int) -> pa.Table | None:
        parts = []
        for number, segment in enumerate(self._segments):
            start, end = segment.key_groups
            if end < group:
                self._open.pop(number, None)
            elif start <= group:
                if number not in self._open:
                    self._open[number] = self._checkpoint.rows_of(segment)
                first, last = segment.offsets[group - start], segment.offsets[group - start + 1]
                parts.append((segment.level, self._open[number].slice(first - segment.offsets[0], last - first)))
        if any(level for level, _ in parts):
            tables = [rows for _, rows in sorted(parts, key=lambda part: part[0])]
            return as_one(tables, [KeyGroupRange(group, group)] * len(tables), is_identity)
        return joined((rows for _, rows in parts), self._checkpoint.location) if parts else None

    def content(self, group: int) -> list[tuple[object, ...]]:
        """Returns what identifies the rows of a group without reading them. A delta without rows may remove windows."""
        found = []
        for segment in self._segments:
            at = group - segment.key_groups.start
            if 0 <= at < segment.key_groups.size and (segment.level or segment.offsets[at + 1] > segment.offsets[at]):
                rows = segment.offsets[at : at + 2]
                found.append((segment.level, segment.handle.checksum, segment.handle.size_bytes, rows))
        return sorted(found)

    def all_rows(self) -> pa.Table | None:
        if not self._segments:
            return None
        tables = (table for stack in stacks(self._segments) for table in self._checkpoint.merged(stack))
        return joined(tables, self._checkpoint.location)


def _pairs(left: _Groups, right: _Groups, grouped: bool) -> Iterator[tuple[pa.Table | None, pa.Table | None]]:
    if not grouped:
        yield left.all_rows(), right.all_rows()
        return
    for group in sorted(left.groups | right.groups):
        if left.content(group) == right.content(group):
            continue
        yield left.rows(group), right.rows(group)


def _unlike(table: pa.Table | None, other: pa.Table | None) -> pa.Table | None:
    """Returns the rows without an equal one in ``other``, as far as Arrow can compare them, which saves most of the work."""
    if table is None or other is None or min(table.num_rows, other.num_rows) < JOIN_ROWS:
        return table
    if not table.schema.equals(other.schema):
        return table
    names = table.schema.names
    try:
        return table.join(other, names, join_type="left anti").select(names).cast(table.schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):  # nested columns
        return table


def _entries(table: pa.Table | None) -> dict[object, Row]:
    """Returns the rows by their identity. A null column is left out, so that files with and without it compare as equal."""
    if table is None:
        return {}
    rows = table.drop_columns([KEY_GROUP]).to_pylist()
    return {_frozen({n: v for n, v in row.items() if is_identity(n) and v is not None}): row for row in rows}


def _compare_rows(before: pa.Table | None, after: pa.Table | None, found: StateDifference, examples: int) -> None:
    old, new = _entries(_unlike(before, after)), _entries(_unlike(after, before))
    for entry, row in old.items():
        other = new.get(entry)
        if other is None:
            found.removed += 1
            if len(found.removed_examples) < examples:
                found.removed_examples.append(_shown(row, before))
        elif _frozen(_values(row)) != _frozen(_values(other)):
            found.changed += 1
            if len(found.changed_examples) < examples:
                found.changed_examples.append((_shown(row, before), _shown(other, after)))
    for entry, row in new.items():
        if entry not in old:
            found.added += 1
            if len(found.added_examples) < examples:
                found.added_examples.append(_shown(row, after))


def _compare_elements(old: _Elements, new: _Elements, found: StateDifference, examples: int) -> None:
    gone, come = old.counts - new.counts, new.counts - old.counts
    found.removed, found.added = gone.total(), come.total()
    found.removed_examples = old.rows(gone.elements(), examples)
    found.added_examples = new.rows(come.elements(), examples)


def _element(value: FieldValue, field: pa.Field) -> FieldValue:
    return element_value(value) if is_msgpack(field) else readable(value, field)


def _values(row: Row) -> Row:
    return {name: value for name, value in row.items() if not is_identity(name)}


def _frozen(value: FieldValue) -> object:
    """Returns a hashable value that is equal for equal state: NaN equals NaN, and the order of a map is ignored."""
    if isinstance(value, Mapping):
        return tuple((name, _frozen(part)) for name, part in sorted(value.items()))
    if isinstance(value, list):
        parts = [_frozen(part) for part in value]
        return frozenset(parts) if value and isinstance(value[0], tuple) else tuple(parts)
    if isinstance(value, tuple):
        return tuple(_frozen(part) for part in value)
    if isinstance(value, float) and value != value:
        return "NaN"
    return (type(value).__name__, value)


def _shown(row: Row, table: pa.Table | None) -> Row:
    assert table is not None
    return {name: readable(value, table.schema.field(name)) for name, value in row.items() if value is not None}
