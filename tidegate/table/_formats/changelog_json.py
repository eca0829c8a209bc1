"""Changelog formats in JSON: Debezium, Canal, Maxwell and Oracle GoldenGate (Flink: ``DebeziumJson...``, ``CanalJson...``, ``MaxwellJson...`` and
``OggJsonDeserializationSchema``, and the matching serialization schemas).

    message ─▶ tree ─▶ rows before and after the change ─▶ +I, -U and +U, -D

Messages of Debezium and GoldenGate whose rows Arrow reads as Flink does are read at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.formats.messages import Counts, Values
from tidegate.functions.sql.changelog import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    adds,
    has_kinds,
    with_kinds,
)
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot, parse_type
from tidegate.table._formats.columns import one_by_one
from tidegate.table._formats.errors import Unreadable
from tidegate.table._formats.java_numbers import whole_number
from tidegate.table._formats.json_reading import Convert, JsonReading, JsonTree
from tidegate.table._formats.json_writing import JsonWriting
from tidegate.table._formats.times import TimestampStandard

Change: TypeAlias = tuple[int, dict[str, Any]]
"""A change: its row kind, and the values of the row's columns by name."""

_MOST_SHOWN = 200
"""How many bytes of a message an error shows; chosen, not measured."""
_LONG_BITS = 64
"""The bits of a Java long."""
_TEXT, _WHOLE = "STRING", "BIGINT"
_TEXTS, _TEXT_MAP = "ARRAY<STRING>", "MAP<STRING, STRING>"


@dataclass(frozen=True)
class Metadata:
    """A metadata column of a changelog format: ``path`` is its place in a message, ``read_as`` its type there."""

    type: str
    path: tuple[str, ...]
    read_as: str = ""
    times: int = 1
    """The factor that converts a whole number to ms."""


@dataclass(frozen=True)
class Dialect:
    """The JSON layout of a changelog format. ``before`` and ``after``: keys of the rows; ``operation``: key of the operation, whose values are the keys
    of ``kinds``."""

    name: str
    before: str
    after: str
    operation: str
    kinds: Mapping[str, tuple[int, ...]]
    metadata: Mapping[str, Metadata]
    skipped: tuple[str, ...] = ()
    """Operations that are ignored since they change no row."""
    has_lists: bool = False
    """Whether a message holds arrays of rows."""
    tells_changes_alone: bool = False
    """Whether the row before a change holds changed columns only."""


_UPDATE = (UPDATE_BEFORE, UPDATE_AFTER)
DIALECTS: Final[Mapping[str, Dialect]] = {
    one.name: one
    for one in (
        Dialect(
            "debezium-json", "before", "after", "op",
            {"c": (INSERT,), "r": (INSERT,), "u": _UPDATE, "d": (DELETE,)},
            {
                "schema": Metadata(_TEXT, ("schema",)),
                "ingestion-timestamp": Metadata("TIMESTAMP_LTZ(3)", ("ts_ms",), _WHOLE),
                "source.timestamp": Metadata("TIMESTAMP_LTZ(3)", ("source", "ts_ms"), _TEXT_MAP),
                "source.database": Metadata(_TEXT, ("source", "db"), _TEXT_MAP),
                "source.schema": Metadata(_TEXT, ("source", "schema"), _TEXT_MAP),
                "source.table": Metadata(_TEXT, ("source", "table"), _TEXT_MAP),
                "source.properties": Metadata(_TEXT_MAP, ("source",)),
            },
        ),
        Dialect(
            "canal-json", "old", "data", "type",
            {"INSERT": (INSERT,), "UPDATE": _UPDATE, "DELETE": (DELETE,)},
            {
                "database": Metadata(_TEXT, ("database",)),
                "table": Metadata(_TEXT, ("table",)),
                "sql-type": Metadata("MAP<STRING, INT>", ("sqlType",)),
                "pk-names": Metadata(_TEXTS, ("pkNames",)),
                "ingestion-timestamp": Metadata("TIMESTAMP_LTZ(3)", ("ts",), _WHOLE),
                "event-timestamp": Metadata("TIMESTAMP_LTZ(3)", ("es",), _WHOLE),
            },
            skipped=("CREATE",), has_lists=True, tells_changes_alone=True,
        ),
        Dialect(
            "maxwell-json", "old", "data", "type",
            {"insert": (INSERT,), "update": _UPDATE, "delete": (DELETE,)},
            {
                "database": Metadata(_TEXT, ("database",)),
                "table": Metadata(_TEXT, ("table",)),
                "primary-key-columns": Metadata(_TEXTS, ("primary_key_columns",)),
                "ingestion-timestamp": Metadata("TIMESTAMP_LTZ(3)", ("ts",), _WHOLE, 1_000),
            },
            tells_changes_alone=True,
        ),
        Dialect(
            "ogg-json", "before", "after", "op_type",
            {"I": (INSERT,), "U": _UPDATE, "D": (DELETE,)},
            {
                "table": Metadata(_TEXT, ("table",)),
                "primary-keys": Metadata(_TEXTS, ("primary_keys",)),
                "ingestion-timestamp": Metadata("TIMESTAMP_LTZ(6)", ("current_ts",), _TEXT),
                "event-timestamp": Metadata("TIMESTAMP_LTZ(6)", ("op_ts",), _TEXT),
            },
        ),
    )
}  # fmt: skip
"""The layouts of the changelog formats, after Flink's classes."""


@dataclass(frozen=True)
class ChangelogReading:
    """Decodes messages of a changelog format to changes. ``metadata``: keys of the metadata columns to read; ``schema_include``: Debezium's messages
    include their schema; ``includes``: patterns of Canal's databases and tables."""

    row_type: LogicalType
    dialect: str
    standard: TimestampStandard = TimestampStandard.SQL
    ignores_errors: bool = False
    metadata: tuple[str, ...] = ()
    schema_include: bool = False
    includes: tuple[tuple[str, str], ...] = ()
    _tree: JsonTree = field(init=False, repr=False, compare=False)
    _readers: list[Convert] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tree = JsonTree(self.standard, ignores_errors=self.ignores_errors)
        object.__setattr__(self, "_tree", tree)
        known = DIALECTS[self.dialect].metadata
        readers = [tree.reader(parse_type(known[key].read_as or known[key].type)) for key in self.metadata]
        object.__setattr__(self, "_readers", readers)
        tree.reader(self.row_type)

    def __getstate__(self) -> tuple[Any, ...]:
        settings = self.row_type, self.dialect, self.standard, self.ignores_errors
        return *settings, self.metadata, self.schema_include, self.includes

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @property
    def schema(self) -> pa.Schema:
        """Returns the columns of the table, of metadata and of row kinds."""
        known = DIALECTS[self.dialect].metadata
        more = LogicalType(
            TypeRoot.ROW, fields=tuple(Field(f"$metadata {key}", parse_type(known[key].type)) for key in self.metadata)
        )
        return with_kinds(pa.schema([*arrow_schema(self.row_type), *arrow_schema(more)]))

    def read(self, messages: Values) -> tuple[pa.RecordBatch, Counts | None]:
        """Decodes messages to rows with their kinds, and the number of rows for each message. Raises ``PoisonRecord``."""
        found = self._at_once(messages)
        if found is not None:
            return found
        return one_by_one(messages, self._rows, self.schema)

    # ---- by Arrow

    def _at_once(self, messages: Values) -> tuple[pa.RecordBatch, Counts] | None:
        """Decodes messages by Arrow's reader; returns ``None`` where it would read them otherwise than Flink, or where one is invalid."""
        dialect = DIALECTS[self.dialect]
        if self.metadata or self.schema_include or dialect.tells_changes_alone:
            return None
        values = messages if isinstance(messages, pa.Array) else pa.array(messages, pa.binary())
        lengths = pc.fill_null(pc.binary_length(values), 0)
        live = pc.greater(lengths, 0).to_numpy(zero_copy_only=False)
        text = LogicalType(TypeRoot.VARCHAR, length=2**31 - 1)
        envelope = LogicalType(
            TypeRoot.ROW,
            fields=(
                Field("before", self.row_type),
                Field("after", self.row_type),
                Field(dialect.operation, text),
            ),
        )
        whole = JsonReading(envelope).at_once(values.filter(pa.array(live)))
        if whole is None:
            return None
        before, after, operation = whole.columns
        known = {word: 1 + len(kinds) for word, kinds in dialect.kinds.items()}
        words = operation.dictionary_encode() if operation.null_count == 0 else None
        if words is None or any(word not in known for word in words.dictionary.to_pylist()):
            return None
        of_word = [dialect.kinds[word] for word in words.dictionary.to_pylist()]
        codes = words.indices.to_numpy()
        each = np.array([len(kinds) for kinds in of_word], np.int64)[codes]
        record = np.repeat(np.arange(len(codes)), each)
        is_second = np.zeros(len(record), np.int64)
        is_second[1:] = record[1:] == record[:-1]
        padded = np.array([[*kinds, 0][:2] for kinds in of_word], np.int8).reshape(-1, 2)
        kinds = padded[codes[record], is_second]
        is_after = (kinds == INSERT) | (kinds == UPDATE_AFTER)
        both = pa.concat_arrays([before, after])
        rows = both.take(pa.array(record + np.where(is_after, len(codes), 0)))
        if rows.null_count:
            return None
        counts = np.zeros(len(values), np.int64)
        counts[live] = each
        return pa.RecordBatch.from_arrays([*rows.flatten(), pa.array(kinds)], schema=self.schema), counts

    # ---- one by one

    def _rows(self, message: bytes | None) -> Iterator[tuple[Any, ...]]:
        if not message:
            return
        name, names = self.dialect.removesuffix("-json").title(), self.row_type.field_names
        try:
            root = self._root(self._tree.parsed(message))
            if not self._is_included(root):
                return
            payload = self._tree.member(root, "payload") if self.schema_include else root
            if not isinstance(payload, dict):
                raise Unreadable("the message is no JSON object")
            readers = zip(self.metadata, self._readers, strict=True)
            metadata = [self._metadata_of(key, read, root, payload) for key, read in readers]
            for kind, row in self._changes(payload):
                yield (*(row[one] for one in names), *metadata, kind)
        except Unreadable as error:
            if self.ignores_errors:
                return
            shown = message if len(message) <= _MOST_SHOWN else message[:_MOST_SHOWN] + b"..."
            raise Unreadable(f"Corrupt {name} JSON message '{shown.decode(errors='replace')}': {error}") from None

    def _root(self, tree: Any) -> Any:
        """Returns the message, unwrapped where it is the only object in an array."""
        if not isinstance(tree, list) or DIALECTS[self.dialect].tells_changes_alone:
            return tree
        found = [one for one in tree if isinstance(one, dict)]
        if len(found) != 1 or (not self.ignores_errors and any(one is not None for one in tree if one is not found[0])):
            raise Unreadable("the message is an array, which does not hold one object alone")
        return found[0]

    def _is_included(self, root: Any) -> bool:
        for key, pattern in self.includes:
            if not isinstance(root, dict) or key not in root:
                raise Unreadable(f"the message has no field {key}")
            if not re.fullmatch(pattern, self._tree.text(root[key])):
                return False
        return True

    def _changes(self, payload: dict[str, Any]) -> Iterator[Change]:
        dialect, read = DIALECTS[self.dialect], self._row
        word = payload.get(dialect.operation)
        operation = None if word is None else self._tree.text(word)
        before, after = payload.get(dialect.before), payload.get(dialect.after)
        if dialect.has_lists:
            befores, afters = read(before, is_list=True), read(after, is_list=True)
        else:
            befores, afters = [read(before)], [read(after)]
        if operation is None:
            raise Unreadable(f"the message has no field {dialect.operation}")
        if operation in dialect.skipped:
            return
        kinds = dialect.kinds.get(operation)
        if kinds is None:
            if self.ignores_errors:
                return
            raise Unreadable(f'Unknown "{dialect.operation}" value "{operation}"')
        if kinds == (DELETE,) and not dialect.tells_changes_alone:
            afters = befores
        if afters is None or (kinds == _UPDATE and befores is None):
            raise Unreadable(f"the message has no field {dialect.after if afters is None else dialect.before}")
        for at, row in enumerate(afters):
            if row is None:
                raise Unreadable(self._no_row(operation, dialect.before if kinds == (DELETE,) else dialect.after))
            if kinds == _UPDATE:
                old = befores[at] if befores is not None and at < len(befores) else None
                yield UPDATE_BEFORE, self._before(old, row, before)
            yield kinds[-1], row

    def _no_row(self, operation: str, place: str) -> str:
        return (
            no_row_before(operation)
            if place == DIALECTS[self.dialect].before
            else f'the "{place}" of the message is null'
        )

    def _before(self, old: dict[str, Any] | None, after: dict[str, Any], given: Any) -> dict[str, Any]:
        dialect = DIALECTS[self.dialect]
        if old is None:
            raise Unreadable(self._no_row("u", dialect.before))
        if not dialect.tells_changes_alone:
            return old
        changed = {name for name in self.row_type.field_names if old[name] is not None or _stands_in(given, name)}
        return {name: old[name] if name in changed else after[name] for name in old}

    def _row(self, value: Any, *, is_list: bool = False) -> Any:
        """Returns the values of a row, or of each row of a list."""
        if not is_list:
            return self._tree.reader(self.row_type)(value)
        listed = LogicalType(TypeRoot.ARRAY, children=(self.row_type,))
        return self._tree.reader(listed)(value)

    def _metadata_of(self, key: str, read: Convert, root: Any, payload: dict[str, Any]) -> Any:
        metadata = DIALECTS[self.dialect].metadata[key]
        first, *rest = metadata.path
        found = read((root if key == "schema" else payload).get(first))
        if rest:
            found = dict(found or ()).get(rest[0])
            if metadata.type.startswith("TIMESTAMP") and found is not None:
                found = whole_number(found, _LONG_BITS)
        elif metadata.read_as == _TEXT and found is not None:
            found = self._tree.microseconds(found)
        return found if found is None or metadata.times == 1 else found * metadata.times


def no_row_before(operation: str) -> str:
    """Returns Flink's error message for an update or deletion without the row before it."""
    what = "UPDATE" if operation in ("u", "U") else "DELETE"
    return (
        f'The "before" field of {what} message is null, if you are using Debezium Postgres Connector, please check the Postgres table has been '
        "set REPLICA IDENTITY to FULL level."
    )


def _stands_in(tree: Any, name: str) -> bool:
    """Returns whether any object in a JSON tree has a member of the name (Jackson: ``findValue``)."""
    if isinstance(tree, dict):
        return name in tree or any(_stands_in(one, name) for one in tree.values())
    return isinstance(tree, list) and any(_stands_in(one, name) for one in tree)


@dataclass(frozen=True)
class ChangelogWriting:
    """Encodes changes as messages of a changelog format: -U and -D rows become deletions."""

    json: JsonWriting
    dialect: str

    takes_kinds = True
    """Whether ``messages`` takes batches with a last column of row kinds."""

    def messages(self, batch: pa.RecordBatch) -> list[bytes]:
        """Encodes each change as bytes."""
        return [text.encode() for text in self.texts(batch)]

    def texts(self, batch: pa.RecordBatch) -> list[str]:
        """Encodes each change as the text of a JSON object."""
        kinds = batch.columns[-1].to_pylist() if has_kinds(batch.schema) else [INSERT] * batch.num_rows
        wrap = _WRAPPED[self.dialect]
        leaves_out = self.json.leaves_nulls_out
        rows = self.json.texts(batch.select(range(len(self.json.row_type.fields))))
        return [wrap(row, adds(kind), leaves_out) for row, kind in zip(rows, kinds, strict=True)]


def _debezium(operation: str, words: tuple[str, str]) -> Callable[[str, bool, bool], str]:
    def wrapped(row: str, is_added: bool, leaves_out: bool) -> str:
        none = "" if leaves_out else '"before":null,' if is_added else '"after":null,'
        rows = f'{none}"after":{row},' if is_added else f'"before":{row},{none}'
        return f'{{{rows}"{operation}":"{words[0] if is_added else words[1]}"}}'

    return wrapped


def _canal(row: str, is_added: bool, leaves_out: bool) -> str:
    return f'{{"data":[{row}],"type":"{"INSERT" if is_added else "DELETE"}"}}'


def _maxwell(row: str, is_added: bool, leaves_out: bool) -> str:
    return f'{{"data":{row},"type":"{"insert" if is_added else "delete"}"}}'


_WRAPPED: Final[Mapping[str, Callable[[str, bool, bool], str]]] = {
    "debezium-json": _debezium("op", ("c", "d")),
    "canal-json": _canal,
    "maxwell-json": _maxwell,
    "ogg-json": _debezium("op_type", ("I", "D")),
}
