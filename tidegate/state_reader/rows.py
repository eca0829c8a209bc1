"""Converts rows of state to readable values and to JSON, and selects the rows of one key.

readable     Python values; pickled ones as they are when they are plain, else ``Pickled``
to_json      what JSON can say: bytes in base64, a ``Pickled`` as {"type": ..., "pickle": base64}, odd keys as pairs
of_key       a key as text: ``42``, ``abc``, or JSON for several fields: ``["UA", "EWR"]``, ``{"carrier": "UA"}``
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterator, Mapping

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.model.errors import Misuse
from tidegate.model.values import FieldValue, Json
from tidegate.state_reader.checkpoint import JSON, TYPE_SUFFIX
from tidegate.state_reader.pickles import Pickled, plain_value
from tidegate.state_reader.segments import is_pickled
from tidegate.wire.state_columns import ELEMENT

KEY = "key"
KEY_PREFIX = "key."
WINDOW_COLUMNS = ("window_start", "window_end")
"""Bounds of time windows, in milliseconds."""
TIMERS = ("_timers.event", "_timers.processing")
"""The states whose column ``timestamp`` says when a timer fires."""


def readable_rows(table: pa.Table) -> Iterator[dict[str, FieldValue]]:
    """Yields each row as a dict. Type names are left out (a ``Pickled`` has its own), and so are elements with a JSON column."""
    names = [name for name in table.schema.names if not _is_repeated(name, table.schema)]
    fields = [table.schema.field(name) for name in names]
    for batch in table.select(names).to_batches(max_chunksize=1024):
        columns = [batch.column(i).to_pylist() for i in range(len(names))]
        for values in zip(*columns, strict=True):
            yield {f.name: readable(value, f) for f, value in zip(fields, values, strict=True)}


def readable(value: FieldValue, field: pa.Field) -> FieldValue:
    """Converts a value of a state column, as ``to_pylist`` gives it, to a plain Python value: a map becomes a list of pairs, a pickled
    value is unpickled if it consists of Python's own types, and else becomes a ``Pickled``.
    """
    kind = field.type
    if value is None:
        return None
    if is_pickled(field):
        return plain_value(value)
    if pa.types.is_struct(kind):
        return {child.name: readable(value[child.name], child) for child in kind}
    if pa.types.is_map(kind):
        return [(readable(k, kind.key_field), readable(v, kind.item_field)) for k, v in value]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [readable(element, kind.value_field) for element in value]
    return value


def shown_times(state: str, row: Mapping[str, FieldValue]) -> dict[str, FieldValue]:
    """Returns a row for people: bounds of windows, and when timers fire, as times in UTC. In JSON and Parquet they stay milliseconds."""
    times = (*WINDOW_COLUMNS, "timestamp") if state in TIMERS else WINDOW_COLUMNS
    return {
        name: time_text(value) if name in times and isinstance(value, int) else value for name, value in row.items()
    }


def time_text(epoch_ms: int) -> str:
    """Formats milliseconds since 1970, such as ``2026-01-01T12:00:00.500Z``; a number that is no date, as the end of all time, stays one."""
    try:
        at = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=epoch_ms)
    except OverflowError:
        return str(epoch_ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def element_value(content: bytes) -> FieldValue:
    """Decodes an element of operator state: MessagePack, or else a pickled value."""
    try:
        return msgspec.msgpack.decode(content)
    except (msgspec.MsgspecError, RecursionError):
        return plain_value(content)


def to_json(value: FieldValue) -> Json:
    """Converts a value of state to JSON; bytes become Base64."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON knows neither nan nor inf
    if isinstance(value, Pickled):
        return {"type": value.type_name, "pickle": base64.b64encode(value.content).decode()}
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        if all(isinstance(name, str) for name in value):
            return {name: to_json(part) for name, part in value.items()}
        return [[to_json(name), to_json(part)] for name, part in value.items()]
    if isinstance(value, (list, tuple)):
        return [to_json(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted((to_json(part) for part in value), key=repr)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


def to_text(value: FieldValue) -> str:
    """Formats a value as the cell of a table."""
    if isinstance(value, (str, Pickled)):
        return str(value)
    return json.dumps(_with_texts(value), ensure_ascii=False)


def of_key(table: pa.Table, text: str) -> pa.Table:
    """Returns the rows of keyed state with the key ``text``. Raises ``Misuse`` for a text that cannot be a key of that type."""
    names = [name for name in table.schema.names if name == KEY or name.startswith(KEY_PREFIX)]
    if len(names) == 1 and _is_simple(table.schema.field(names[0])):
        return table.filter(pc.equal(table.column(names[0]), _scalar(text, table.schema.field(names[0]).type)))
    wanted = _parsed(text)
    fields = [table.schema.field(name) for name in names]
    columns = [table.column(name).to_pylist() for name in names]
    keys = ([readable(v, f) for v, f in zip(values, fields, strict=True)] for values in zip(*columns, strict=True))
    return table.filter(pa.array([_is_key(key, names, text, wanted) for key in keys], pa.bool_()))


def _is_repeated(name: str, schema: pa.Schema) -> bool:
    if name == ELEMENT:
        return JSON in schema.names
    base = name.removesuffix(TYPE_SUFFIX)
    return base != name and base in schema.names and is_pickled(schema.field(base))


def _with_texts(value: FieldValue) -> Json:
    """Converts a value to JSON like ``to_json``, with short texts for pickled values."""
    if isinstance(value, Pickled):
        return str(value)
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _with_texts(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_texts(part) for part in value]
    return to_json(value)


def _is_simple(field: pa.Field) -> bool:
    return not (is_pickled(field) or pa.types.is_nested(field.type) or pa.types.is_binary(field.type))


def _scalar(text: str, kind: pa.DataType) -> pa.Scalar:
    try:
        return pa.scalar(text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Misuse(f"no key can be {text!r}: keys of this state are of type {kind}") from error


def _parsed(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_key(values: list[FieldValue], names: list[str], text: str, wanted: Json) -> bool:
    if len(values) == 1:
        value = to_json(values[0])
        is_same_text = isinstance(value, str) and value == text
        is_same_tuple = isinstance(value, dict) and list(value.values()) == wanted  # a tuple is kept as a struct
        return is_same_text or is_same_tuple or bool(value == wanted)
    plain = [to_json(value) for value in values]
    by_name = dict(zip((n.removeprefix(KEY_PREFIX) for n in names), plain, strict=True))
    return bool(wanted in (plain, by_name))
