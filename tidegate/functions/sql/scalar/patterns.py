"""LIKE, SIMILAR TO and regular expression functions. Java's expressions are translated for Python's ``re``, with ASCII classes."""

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

_ONE = "[^\n\r\x85\u2028\u2029]"
"""A regular expression for any character but line ends, as Java's ``.``: the meaning of ``_``."""
_ANY = "(?s:.*)"
_SIMILAR_SPECIALS = "[]()|^-+*_%?{}"
_JAVA_SPECIALS = "[]()|^-+*?{}$\\."
_CLASSES = {
    "[:ALPHA:]": "a-zA-Z", "[:UPPER:]": "A-Z", "[:LOWER:]": "a-z", "[:DIGIT:]": "0-9", "[:SPACE:]": " ", "[:WHITESPACE:]": " \\t\\n\\x0b\\f\\r",
    "[:ALNUM:]": "a-zA-Z0-9",
}  # fmt: skip
_REPETITION = re.compile(r"\{\d+(,\d*)?\}", re.ASCII)


@lru_cache(maxsize=1024)
def like_expression(pattern: str, escape: str | None) -> re.Pattern[str]:
    """Compiles a LIKE pattern to a regular expression. Raises ``EvaluationError`` for an escape before an ordinary character."""
    return re.compile(_like_text(pattern, escape, re.escape))


@lru_cache(maxsize=1024)
def similar_expression(pattern: str, escape: str | None) -> re.Pattern[str]:
    """Compiles a SIMILAR TO pattern to a regular expression. Raises ``EvaluationError`` for an invalid pattern."""
    try:
        return re.compile(_similar_text(pattern, escape), re.ASCII)
    except re.error as error:
        raise EvaluationError(f"SIMILAR TO: {pattern!r} is not a pattern: {error}") from error


def _check_escape(escape: str | None, name: str) -> None:
    if escape is not None and len(units(escape)) != 2:
        raise EvaluationError(f"{name}: Invalid escape character {escape!r}: the escape must be one character")


def _like_text(pattern: str, escape: str | None, character: Callable[[str], str]) -> str:
    _check_escape(escape, "LIKE")
    found: list[str] = []
    rest = iter(pattern)
    for one in rest:
        if one == escape:
            escaped = next(rest, None)
            if escaped is None or escaped not in ("%", "_", escape):
                raise EvaluationError(f"LIKE: in {pattern!r} the escape {escape!r} is not before %, _ or itself")
            found.append(character(escaped))
        else:
            found.append({"%": _ANY, "_": _ONE}.get(one) or character(one))
    return "".join(found)


def _similar_text(pattern: str, escape: str | None) -> str:
    """Rewrites a pattern as Flink's ``SqlLikeUtils`` does: characters other than wildcards, classes and escapes are passed to Java's regular expressions."""
    _check_escape(escape, "SIMILAR TO")
    _check_escapes(pattern, escape)
    found: list[str] = []
    at = 0
    while at < len(pattern):
        one = pattern[at]
        if one == escape:
            found.append(_escaped(pattern, at, escape))
            at += 2
            continue
        if one == "[":
            text, at = _class_text(pattern, at, escape)
            found.append(text)
            continue
        if one == "]":
            raise _no_expression(pattern)
        if one == "{" and not _REPETITION.match(pattern, at):
            raise _no_expression(pattern)
        found.append({"_": _ONE, "%": _ANY, ".": _ONE, "\\": "\\\\", "$": "\\$"}.get(one, one))
        at += 1
    return "".join(found)


def _check_escapes(pattern: str, escape: str | None) -> None:
    """Raises for an escape character with a meaning of its own that does not precede a special character."""
    if escape is None:
        return
    if escape in _SIMILAR_SPECIALS:
        for at, one in enumerate(pattern):
            if one == escape and pattern[at + 1 : at + 2] not in [*_SIMILAR_SPECIALS, escape]:
                raise _wrong_escape(pattern, at)
    if escape == ":" and ("[:" not in pattern or ":]" not in pattern):
        raise _wrong_escape(pattern, -1)


def _escaped(pattern: str, at: int, escape: str | None) -> str:
    """Returns the regular expression of an escaped character."""
    one = pattern[at + 1 : at + 2]
    if one and one in _SIMILAR_SPECIALS:
        return f"\\{one}" if one in _JAVA_SPECIALS else one
    if one != escape:
        raise _wrong_escape(pattern, at)
    return one if one != "." else _ONE


def _class_text(pattern: str, at: int, escape: str | None) -> tuple[str, int]:
    """Converts the character class that begins at a position; returns it with the position behind it."""
    found = ["["]
    at += 1
    while at < len(pattern):
        one = pattern[at]
        if one == "]":
            return "".join([*found, "]"]), at + 1
        if one == escape:
            found.append(_escaped(pattern, at, escape))
            at += 2
            continue
        if pattern.startswith("[:", at):
            name = next((name for name in _CLASSES if pattern.startswith((name, name.lower()), at)), None)
            if name is None:
                raise _no_expression(pattern)
            found.append(_CLASSES[name])
            at += len(name)
            continue
        if one in _SIMILAR_SPECIALS and one not in "-^":
            raise _no_expression(pattern)
        found.append(f"\\{one}" if one in "&~" else one)
        at += 1
    raise _no_expression(pattern)


def _wrong_escape(pattern: str, at: int) -> EvaluationError:
    return EvaluationError(
        f"SIMILAR TO: Invalid escape sequence {pattern!r}, {at}: an escape stands before one of {_SIMILAR_SPECIALS} or itself"
    )


def _no_expression(pattern: str) -> EvaluationError:
    return EvaluationError(f"SIMILAR TO: Invalid regular expression {pattern!r}")


@function("LIKE")
def _like_call(call: ScalarCall) -> Evaluate:
    check_texts(call)
    text, pattern = call.operands[:2]
    if len(call.operands) > 2 and not call.operands[2].is_literal:
        return by_value(call, lambda value, one, escape: like_expression(one, escape).fullmatch(value) is not None)
    escape = call.literal(2) if len(call.operands) > 2 else None
    if len(call.operands) > 2 and escape is None:
        return lambda rows: pa.scalar(None, pa.bool_())
    if not pattern.is_literal:
        return by_value(
            call, lambda value, one: like_expression(one, escape).fullmatch(value) is not None, columns=[0, 1]
        )
    given = pattern.literal
    if given is None:
        return lambda rows: pa.scalar(None, pa.bool_())
    if escape == "" and "_" not in given:
        escape = None  # as in Flink, where such a pattern becomes no expression
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
    anchored = "^" + _like_text(given, escape, _re2_escape) + r"\z"
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
    """Compiles a regular expression; ``None`` if it is invalid."""
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
    """Builds REGEXP_REPLACE; the replacement is literal."""
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
    """Builds a function of a text and a regular expression; null for an invalid expression."""
    check_texts(call)

    def applied(text: str, pattern: str) -> Any:
        compiled = expression(pattern)
        return None if compiled is None else function(text, compiled)

    return by_value(call, applied)
