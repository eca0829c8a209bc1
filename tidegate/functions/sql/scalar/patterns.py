"""LIKE, SIMILAR TO and the functions of regular expressions. Java's expressions are read by Python's ``re``, with its classes of ASCII."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.scalar.context import EvaluationError
from tidegate.functions.sql.scalar.kernels import by_value
from tidegate.functions.sql.scalar.registry import Evaluate, KernelKind, ScalarCall, function
from tidegate.functions.sql.scalar.strings import check_texts, units

_SIMILAR_SPECIAL = "|*+?{}()[]"


@lru_cache(maxsize=1024)
def like_expression(pattern: str, escape: str | None) -> re.Pattern[str]:
    """Returns the regular expression of a pattern of LIKE. Raises ``EvaluationError`` for an escape before another character."""
    return re.compile(_like_text(pattern, escape, re.escape), re.DOTALL)


@lru_cache(maxsize=1024)
def similar_expression(pattern: str, escape: str | None) -> re.Pattern[str]:
    """Returns the regular expression of a pattern of SIMILAR TO."""
    try:
        return re.compile(_like_text(pattern, escape, _similar_character), re.DOTALL)
    except re.error as error:
        raise EvaluationError(f"SIMILAR TO: {pattern!r} is no pattern: {error}") from error


def _similar_character(one: str) -> str:
    return one if one in _SIMILAR_SPECIAL or one in "^-" else re.escape(one)


def _like_text(pattern: str, escape: str | None, character: Callable[[str], str]) -> str:
    if escape is not None and len(escape) != 1:
        raise EvaluationError(f"LIKE: the escape must be one character, not {escape!r}")
    found: list[str] = []
    rest = iter(pattern)
    for one in rest:
        if one == escape:
            escaped = next(rest, None)
            if escaped is None or escaped not in ("%", "_", escape):
                raise EvaluationError(f"LIKE: in {pattern!r} the escape {escape!r} is not before %, _ or itself")
            found.append(re.escape(escaped))
        else:
            found.append({"%": ".*", "_": "."}.get(one) or character(one))
    return "".join(found)


@function("LIKE")
def _like_call(call: ScalarCall) -> Evaluate:
    check_texts(call)
    text, pattern = call.operands[:2]
    escape = call.literal(2) if len(call.operands) > 2 else None
    if not pattern.is_literal:
        return by_value(
            call, lambda value, one: like_expression(one, escape).fullmatch(value) is not None, columns=[0, 1]
        )
    given = pattern.literal
    if given is None:
        return lambda rows: pa.scalar(None, pa.bool_())
    like_expression(given, escape)
    if escape is None and "_" not in given:
        parts = given.split("%")
        if len(parts) == 1:
            return lambda rows: pc.equal(text.evaluate(rows), given)
        if len(parts) == 2 and not parts[0]:
            return lambda rows: pc.ends_with(text.evaluate(rows), parts[1])
        if len(parts) == 2 and not parts[1]:
            return lambda rows: pc.starts_with(text.evaluate(rows), parts[0])
        if len(parts) == 3 and not parts[0] and not parts[2]:
            return lambda rows: pc.match_substring(text.evaluate(rows), parts[1])
    expression = "(?s)^" + _like_text(given, escape, _re2_escape).replace(r"\%", "%").replace(r"\_", "_") + "$"
    anchored = expression.removesuffix("$") + r"\z"
    return lambda rows: pc.match_substring_regex(text.evaluate(rows), anchored)


def _re2_escape(one: str) -> str:
    return one if one.isalnum() or ord(one) > 127 or one in " _%\n\t'\",;:=<>@#&~`!/-" else "\\" + one


@function("SIMILAR TO", kind=KernelKind.DISTINCT)
def _similar_to_call(call: ScalarCall) -> Evaluate:
    check_texts(call)
    escape = call.literal(2) if len(call.operands) > 2 else None
    return by_value(
        call, lambda value, one: similar_expression(one, escape).fullmatch(value) is not None, columns=[0, 1]
    )


@function("NOT LIKE")
def _not_like_call(call: ScalarCall) -> Evaluate:
    test = _like_call(call)
    return lambda rows: pc.invert(test(rows))


@lru_cache(maxsize=1024)
def expression(pattern: str) -> re.Pattern[str] | None:
    """Returns a regular expression, ``None`` for what is none."""
    try:
        return re.compile(re.sub(r"\(\?<([A-Za-z])", r"(?P<\1", pattern), re.ASCII)
    except re.error:
        return None


@function("REGEXP", kind=KernelKind.DISTINCT)
def _regexp_call(call: ScalarCall) -> Evaluate:
    check_texts(call)

    def found(text: str, pattern: str) -> bool:
        compiled = expression(pattern)
        return bool(pattern) and compiled is not None and compiled.search(text) is not None

    return by_value(call, found)


@function("REGEXP_EXTRACT", kind=KernelKind.DISTINCT)
def _regexp_extract_call(call: ScalarCall) -> Evaluate:
    check_texts(call, 0, 1)

    def extracted(text: str, pattern: str, group: int = 0) -> str | None:
        compiled = expression(pattern)
        match = None if compiled is None else compiled.search(text)
        return match[group] if match is not None and 0 <= group <= match.re.groups else None

    return by_value(call, extracted)


@function("REGEXP_REPLACE", kind=KernelKind.DISTINCT)
def _regexp_replace_call(call: ScalarCall) -> Evaluate:
    """The replacement is taken as it is."""
    check_texts(call)

    def replaced(text: str, pattern: str, replacement: str) -> str | None:
        compiled = expression(pattern)
        return None if compiled is None else compiled.sub(lambda match: replacement, text)

    return by_value(call, replaced)


@function("REGEXP_COUNT", kind=KernelKind.DISTINCT)
def _regexp_count_call(call: ScalarCall) -> Evaluate:
    return _over_expression(call, lambda text, compiled: sum(1 for _ in compiled.finditer(text)))


@function("REGEXP_INSTR", kind=KernelKind.DISTINCT)
def _regexp_instr_call(call: ScalarCall) -> Evaluate:
    def position(text: str, compiled: re.Pattern[str]) -> int:
        match = compiled.search(text)
        return 0 if match is None else len(units(text[: match.start()])) // 2 + 1

    return _over_expression(call, position)


@function("REGEXP_SUBSTR", kind=KernelKind.DISTINCT)
def _regexp_substr_call(call: ScalarCall) -> Evaluate:
    def found(text: str, compiled: re.Pattern[str]) -> str | None:
        match = compiled.search(text)
        return None if match is None else match[0]

    return _over_expression(call, found)


@function("REGEXP_EXTRACT_ALL", kind=KernelKind.DISTINCT)
def _regexp_extract_all_call(call: ScalarCall) -> Evaluate:
    check_texts(call, 0, 1)

    def found(text: str, pattern: str, group: int = 1) -> list[str | None] | None:
        compiled = expression(pattern)
        if compiled is None or not 0 <= group <= compiled.groups:
            return None
        return [match[group] for match in compiled.finditer(text)]

    return by_value(call, found)


def _over_expression(call: ScalarCall, function: Callable[[str, re.Pattern[str]], Any]) -> Evaluate:
    """Null for what is no regular expression."""
    check_texts(call)

    def applied(text: str, pattern: str) -> Any:
        compiled = expression(pattern)
        return None if compiled is None else function(text, compiled)

    return by_value(call, applied)
