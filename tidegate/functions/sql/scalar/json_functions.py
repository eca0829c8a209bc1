"""JSON functions, after Flink's ``SqlJsonUtils`` and Calcite's ``JsonFunctions``: a path without a mode is strict, where a missing member is an error;
in lax mode it is empty. Text after a complete value is ignored."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.scalar.arrow_types import time_unit
from tidegate.functions.sql.scalar.calendar import UNITS_PER_SECOND
from tidegate.functions.sql.scalar.context import EvaluationError
from tidegate.functions.sql.scalar.kernels import by_value
from tidegate.functions.sql.scalar.registry import Evaluate, KernelKind, ScalarCall, function
from tidegate.functions.sql.scalar.strings import check_texts
from tidegate.functions.sql.scalar.texts import date_text, float_text, formatter, time_text
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.logical_types import LogicalType, TypeRoot

Step = str | int | None
"""A step of a path: a member, an element, or all of them (``None``)."""


class _Missing(Exception):
    """A path leads nowhere."""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _number(text: str) -> Decimal:
    value = Decimal(text)
    return value if value else abs(value)


_DECODER: Final = json.JSONDecoder(parse_float=_number, parse_constant=_refuse_constant, strict=True)


def parse(text: str) -> Any:
    """Returns the first value of a text, numbers with a point or exponent as ``Decimal``. What follows it is not read, except that no number goes on
    without a space and no word with a letter or digit, as in Jackson. Raises ``ValueError``."""
    stripped = text.lstrip(" \t\r\n")
    if not stripped:
        raise ValueError("empty")
    value, end = _DECODER.raw_decode(stripped)
    follows = stripped[end : end + 1]
    is_word = value is None or isinstance(value, bool)
    if follows and ((is_word and (follows.isalnum() or follows in "_$")) or _is_joined_number(value, follows)):
        raise ValueError(f"{follows!r} follows {stripped[:end]}")
    return value


def _is_joined_number(value: Any, follows: str) -> bool:
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool) and follows not in " \t\r\n"


@lru_cache(maxsize=1024)
def parse_path(path: str) -> tuple[bool, tuple[Step, ...]]:
    """Returns whether a path is lax and its steps. Raises ``UnsupportedPlan`` for filters, slices and descents."""
    match = re.fullmatch(r"\s*(?:(lax|strict)\s+)?\$(.*)", path, re.DOTALL)
    if match is None:
        raise UnsupportedPlan(f"the JSON path {path!r} does not begin with $")
    steps: list[Step] = []
    at, rest = 0, match[2].rstrip()
    while at < len(rest):
        step = _STEP.match(rest, at)
        if step is None:
            raise UnsupportedPlan(
                f"the JSON path {path!r} is not supported at {rest[at:]!r}: members, elements and * are"
            )
        name, quoted, double, index = step.group(1, 2, 3, 4)
        if index is not None:
            steps.append(None if index == "*" else int(index))
        elif name == "*":
            steps.append(None)
        else:
            steps.append(name if name is not None else quoted if quoted is not None else double)
        at = step.end()
    return match[1] == "lax", tuple(steps)


_STEP: Final = re.compile(
    r"""\.([^.\[\]\s'"()?@]+|\*)|\[\s*'((?:[^'\\]|\\.)*)'\s*\]|\[\s*"((?:[^"\\]|\\.)*)"\s*\]|\[\s*(-?\d+|\*)\s*\]"""
)


def find(value: Any, steps: tuple[Step, ...]) -> Any:
    """Returns the value at a path; for a ``*`` the list of all. Raises ``_Missing``."""
    for position, step in enumerate(steps):
        if step is None:
            if not isinstance(value, (list, dict)):
                raise _Missing
            found = []
            for one in value.values() if isinstance(value, dict) else value:
                try:
                    found.append(find(one, steps[position + 1 :]))
                except _Missing:
                    continue
            return found
        if isinstance(step, int):
            if not isinstance(value, list) or not -len(value) <= step < len(value):
                raise _Missing
            value = value[step]
        else:
            if not isinstance(value, dict) or step not in value:
                raise _Missing
            value = value[step]
    return value


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, (list, dict))


def _looked_up(text: str, path: str) -> tuple[bool, bool, Any]:
    """Evaluates a SQL/JSON path on a JSON text; returns whether the path is in lax mode, whether the evaluation failed, and the value found."""
    is_lax, steps = parse_path(path)
    try:
        document = parse(text)
    except (ValueError, RecursionError):
        return is_lax, True, None
    try:
        return is_lax, False, find(document, steps)
    except _Missing:
        return is_lax, not is_lax, None


def _behaviours(call: ScalarCall) -> dict[str, tuple[str, Any]]:
    """Returns the clauses of JSON_VALUE: behaviour and default for EMPTY and ERROR."""
    found: dict[str, tuple[str, Any]] = {"EMPTY": ("NULL", None), "ERROR": ("NULL", None)}
    behaviour, default = "NULL", None
    for operand in call.operands[2:]:
        if not operand.is_literal:
            raise call.refuse("its default must be a constant")
        if operand.type.root is not TypeRoot.SYMBOL:
            default = operand.literal
        elif operand.literal in ("EMPTY", "ERROR") and operand is not call.operands[2] and behaviour:
            found[operand.literal] = (behaviour, default)
            behaviour, default = "", None
        else:
            behaviour = operand.literal
    return found


@function("JSON_VALUE", kind=KernelKind.DISTINCT, may_fail=True)
def _json_value_call(call: ScalarCall) -> Evaluate:
    check_texts(call, 0, 1)
    behaviours = _behaviours(call)
    convert = _returning(call)

    def behave(when: str) -> Any:
        behaviour, default = behaviours[when]
        if behaviour == "ERROR":
            raise EvaluationError(f"JSON_VALUE: the path leads to no value, and ERROR ON {when} is set")
        return default if behaviour == "DEFAULT" else None

    def value_at(text: str, path: str) -> Any:
        is_lax, failed, value = _looked_up(text, path)
        if failed:
            return behave("ERROR")
        if value is None or (is_lax and not _is_scalar(value)):
            return behave("EMPTY")
        if not _is_scalar(value):
            return behave("ERROR")
        return convert(value)

    return _with_path(call, value_at)


def _with_path(call: ScalarCall, function: Callable[[str, str], Any], *, is_strict: bool = True) -> Evaluate:
    if call.operands[1].is_literal and call.operands[1].literal is not None:
        path = call.operands[1].literal
        try:
            parse_path(path)
        except UnsupportedPlan as error:
            raise call.refuse(str(error)) from None
        return by_value(call, lambda text: function(text, path), columns=[0], is_strict=is_strict)
    return by_value(call, function, columns=[0, 1], is_strict=is_strict)


def _returning(call: ScalarCall) -> Callable[[Any], Any]:
    match call.type.root:
        case TypeRoot.VARCHAR | TypeRoot.CHAR:
            return lambda value: value if isinstance(value, str) else _scalar_text(value)
        case TypeRoot.BOOLEAN:
            return lambda value: value if isinstance(value, bool) else _wrong(call, value)
        case TypeRoot.INTEGER | TypeRoot.BIGINT | TypeRoot.SMALLINT | TypeRoot.TINYINT:
            return lambda value: (
                int(value) if isinstance(value, (int, Decimal)) and not isinstance(value, bool) else _wrong(call, value)
            )
        case TypeRoot.DOUBLE | TypeRoot.FLOAT:
            return lambda value: (
                float(value)
                if isinstance(value, (int, Decimal)) and not isinstance(value, bool)
                else _wrong(call, value)
            )
    raise call.refuse(f"it cannot return {call.type} (RETURNING)")


def _wrong(call: ScalarCall, value: Any) -> NoReturn:
    raise EvaluationError(f"JSON_VALUE: {value!r} is not a {call.type}; Flink fails here too, whatever is set ON ERROR")


def _scalar_text(value: Any) -> str:
    return "true" if value is True else "false" if value is False else str(value)


@function("JSON_QUERY", kind=KernelKind.DISTINCT, may_fail=True)
def _json_query_call(call: ScalarCall) -> Evaluate:
    check_texts(call, 0, 1)
    if call.type.root not in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        raise call.refuse(f"it cannot return {call.type} (RETURNING)")
    symbols = [operand.literal for operand in call.operands[2:]]
    defaults = ["WITHOUT_ARRAY", "NULL", "NULL"]
    wrapper, on_empty, on_error = symbols + defaults[len(symbols) :]

    def behave(behaviour: str, when: str) -> str | None:
        if behaviour == "ERROR":
            raise EvaluationError(f"JSON_QUERY: the path leads to no object or array, and ERROR ON {when} is set")
        return {"EMPTY_ARRAY": "[]", "EMPTY_OBJECT": "{}"}.get(behaviour)

    def query(text: str, path: str) -> str | None:
        is_lax, failed, value = _looked_up(text, path)
        if failed:
            return behave(on_error, "ERROR")
        if value is not None and (
            wrapper == "WITH_UNCONDITIONAL_ARRAY"
            or (wrapper in ("CONDITIONAL_ARRAY", "WITH_CONDITIONAL_ARRAY") and not isinstance(value, list))
        ):
            value = [value]
        if value is None or (is_lax and _is_scalar(value)):
            return behave(on_empty, "EMPTY")
        return behave(on_error, "ERROR") if _is_scalar(value) else to_json(value)

    return _with_path(call, query)


@function("JSON_EXISTS", kind=KernelKind.DISTINCT, may_fail=True)
def _json_exists_call(call: ScalarCall) -> Evaluate:
    check_texts(call, 0, 1)
    on_error = call.literal(2) if len(call.operands) > 2 else "FALSE"

    def exists(text: str, path: str) -> bool | None:
        _, failed, value = _looked_up(text, path)
        if not failed:
            return value is not None
        if on_error == "ERROR":
            raise EvaluationError(f"JSON_EXISTS: the path {path!r} fails, and ERROR ON ERROR is set")
        return {"TRUE": True, "FALSE": False}.get(on_error)

    return _with_path(call, exists)


def to_json(value: Any) -> str:
    """Formats a value as JSON without blanks, members sorted by name."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return "[" + ",".join(map(to_json, value)) + "]"
        case dict():
            return "{" + ",".join(f"{to_json(key)}:{to_json(value[key])}" for key in sorted(value)) + "}"
        case _:
            return str(value)


def _is_json(name: str, test: Callable[[Any], bool]) -> None:
    for negation in ("", "NOT "):

        @function(f"IS {negation}JSON {name}", kind=KernelKind.DISTINCT)
        def build(call: ScalarCall) -> Evaluate:
            check_texts(call)

            def tested(text: str) -> bool:
                try:
                    return test(parse(text))
                except (ValueError, RecursionError):
                    return False

            evaluate = by_value(call, tested)
            if "NOT JSON" in call.name:
                return lambda rows: pc.invert(pc.fill_null(evaluate(rows), False))
            return lambda rows: pc.fill_null(evaluate(rows), False)


for _name, _shape in (
    ("VALUE", lambda value: True),
    ("OBJECT", lambda value: isinstance(value, dict)),
    ("ARRAY", lambda value: isinstance(value, list)),
    ("SCALAR", _is_scalar),
):
    _is_json(_name, _shape)


def writer(type: LogicalType, time_zone: str) -> Callable[[Any], str]:
    """Returns the function that formats values of a type as JSON. Raises ``UnsupportedPlan``."""
    bare = _bare_writer(type, time_zone)
    return lambda value: "null" if value is None else bare(value)


def _bare_writer(type: LogicalType, time_zone: str) -> Callable[[Any], str]:
    match type.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return lambda value: json.dumps(value, ensure_ascii=False)
        case TypeRoot.BOOLEAN:
            return lambda value: "true" if value else "false"
        case (
            TypeRoot.TINYINT
            | TypeRoot.SMALLINT
            | TypeRoot.INTEGER
            | TypeRoot.BIGINT
            | TypeRoot.DECIMAL
            | TypeRoot.DOUBLE
        ):
            return formatter(type, time_zone)
        case TypeRoot.FLOAT:
            return float_text
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return lambda value: '"' + base64.b64encode(value).decode() + '"'
        case TypeRoot.DATE | TypeRoot.TIME:
            write = date_text if type.root is TypeRoot.DATE else lambda value: time_text(value, type.precision or 0)
            return lambda value: f'"{write(value)}"'
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            unit = UNITS_PER_SECOND[time_unit(type)]
            end = "Z" if type.root is TypeRoot.TIMESTAMP_LTZ else ""
            return lambda value: f'"{_iso_text(value, unit)}{end}"'
        case TypeRoot.ARRAY:
            element = writer(type.element, time_zone)
            return lambda value: "[" + ",".join(map(element, value)) + "]"
        case TypeRoot.MAP if type.children[0].root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
            item = writer(type.children[1], time_zone)
            return lambda value: (
                "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{item(v)}" for k, v in sorted(value)) + "}"
            )
        case TypeRoot.ROW:
            fields = [(json.dumps(f.name, ensure_ascii=False), writer(f.type, time_zone)) for f in type.fields]
            return lambda value: (
                "{"
                + ",".join(f"{name}:{write(v)}" for (name, write), v in zip(fields, value.values(), strict=True))
                + "}"
            )
        case TypeRoot.NULL:
            return lambda value: "null"
    raise UnsupportedPlan(f"values of the type {type} cannot be written as JSON")


def _iso_text(value: int, per_second: int) -> str:
    """Formats a timestamp as ``LocalDateTime.toString``: seconds and fraction only where they are not zero, the fraction in groups of three digits."""
    seconds, fraction = divmod(value, per_second)
    days, second = divmod(seconds, 86_400)
    text = f"{date_text(days)}T{second // 3600:02d}:{second // 60 % 60:02d}"
    nanos = fraction * (1_000_000_000 // per_second)
    if second % 60 or nanos:
        text += f":{second % 60:02d}"
    if nanos:
        digits = f"{nanos:09d}"
        while digits.endswith("000"):
            digits = digits[:-3]
        text += "." + digits
    return text


@function("JSON_STRING", kind=KernelKind.DISTINCT)
def _json_string_call(call: ScalarCall) -> Evaluate:
    (operand,) = call.operands
    return by_value(call, writer(operand.type, call.context.time_zone))


_JSON_CALLS = ("$JSON_OBJECT$1", "$JSON_ARRAY$1", "$JSON$1")


def _value_writers(call: ScalarCall, indices: range) -> list[Callable[[Any], str]]:
    """Returns the JSON formatters of operands; results of JSON functions are inserted as they are."""
    return [
        (lambda value: "null" if value is None else value)
        if call.operands[index].function in _JSON_CALLS
        else writer(call.operands[index].type, call.context.time_zone)
        for index in indices
    ]


@function("JSON", kind=KernelKind.DISTINCT)
def _json_call(call: ScalarCall) -> Evaluate:
    check_texts(call)
    return by_value(call, lambda text: to_json(parse(text)))


@function("JSON_OBJECT", kind=KernelKind.VALUES)
def _json_object_call(call: ScalarCall) -> Evaluate:
    is_absent = call.literal(0) == "ABSENT"
    columns = list(range(1, len(call.operands)))
    writers = _value_writers(call, range(2, len(call.operands), 2))

    def written(*values: Any) -> str:
        members = [
            f"{json.dumps(key, ensure_ascii=False)}:{write(value)}"
            for key, value, write in zip(values[::2], values[1::2], writers, strict=True)
            if not (is_absent and value is None)
        ]
        return "{" + ",".join(members) + "}"

    if not columns:
        return lambda rows: pa.scalar("{}")
    return by_value(call, written, columns=columns, is_strict=False)


@function("JSON_ARRAY", kind=KernelKind.VALUES)
def _json_array_call(call: ScalarCall) -> Evaluate:
    is_absent = call.literal(0) == "ABSENT"
    columns = list(range(1, len(call.operands)))
    writers = _value_writers(call, range(1, len(call.operands)))

    def written(*values: Any) -> str:
        kept = [write(value) for value, write in zip(values, writers, strict=True) if not (is_absent and value is None)]
        return "[" + ",".join(kept) + "]"

    if not columns:
        return lambda rows: pa.scalar("[]")
    return by_value(call, written, columns=columns, is_strict=False)


@function("JSON_QUOTE", kind=KernelKind.DISTINCT)
def _json_quote_call(call: ScalarCall) -> Evaluate:
    """Builds JSON_QUOTE: non-ASCII characters become ``\\u`` escapes; of a surrogate pair Flink writes code point and second unit."""
    check_texts(call)
    simple = {'"': '\\"', "\\": "\\\\", "/": "/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

    def quoted(text: str) -> str:
        parts = []
        for one in text:
            code = ord(one)
            if one in simple:
                parts.append(simple[one])
            elif 32 <= code < 127:
                parts.append(one)
            else:
                parts.append(f"\\u{code:04x}")
                if code > 0xFFFF:
                    parts.append(f"\\u{0xDC00 + ((code - 0x10000) & 0x3FF):04x}")
        return '"' + "".join(parts) + '"'

    return by_value(call, quoted)


@function("JSON_UNQUOTE", kind=KernelKind.DISTINCT)
def _json_unquote_call(call: ScalarCall) -> Evaluate:
    """Builds JSON_UNQUOTE: a text that is not a JSON string stays unchanged."""
    check_texts(call)

    def unquoted(text: str) -> str:
        if len(text) >= 2 and text.startswith('"') and text.endswith('"'):
            try:
                found = json.loads(text)
            except ValueError:
                return text
            return found if isinstance(found, str) else text
        return text

    return by_value(call, unquoted)
