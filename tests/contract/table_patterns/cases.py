"""Tests of texts against the patterns of LIKE and SIMILAR TO, as SQL expressions over rows ``(s, p)``. ``p`` is empty in most of them: a pattern that begins
with it is no literal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

TEXTS: Sequence[str | None] = (
    "", "a", "ab", "abc", "aXc", "a%c", "a_c", "a\\c", "a\\%c", "%", "_", "\\", "a\nc", "\n", "a\r\nc", "ä", "aäc", "😀", "a😀c", "A", "ABC", "aab",
    "aaabbb", "a.c", "a*c", "[abc]", "a!c", "a!%c", "a|b", "(ab)", "a+b", "^a$", "a-c", "ac", "c", "b", "abcabc", "a{2}", "\u2028", "a\u0085c", "7",
    None,
)  # fmt: skip
_LIKES = (
    "", "a", "a%", "%a", "%a%", "a%c", "_", "__", "___", "a_c", "%_%", "_%", "%_", "%%", "%", "a%b%c", "%b%c", "a%%c", "%%a", "a%%", "%%b%%", "😀",
    "_😀_", "a_%", "ä", "_ä_", "a.c", "a*c", "[abc]", "^a$", "a+b", "(ab)", "a|b", "a-c", "a{2}", "A%", "\n", "a\nc", "%\n%", "a\\c", "a\\%c", "\\%",
    "\\_", "\\\\", "\\", "%\\%", "%\\%%", "\\%%", "a\\_c", "\\a", "\\Qa\\E", "a$", "%c$", "_%_", "abc%abc", "aab%", "a__", "7", "a%\\",
)  # fmt: skip
_ESCAPED = (
    ("a!%c", "!"), ("a!_c", "!"), ("a!!c", "!"), ("!a", "!"), ("a!", "!"), ("!", "!"), ("!!", "!"), ("!!!", "!"), ("!%", "!"), ("!_", "!"),
    ("a!!%", "!"), ("a!!!%c", "!"), ("%!%%", "!"), ("a!%%", "!"), ("%!%c", "!"), ("%!%", "!"), ("!%%!%", "!"), ("%!_%", "!"), ("a%", "!"),
    ("%a", "!"), ("%a%", "!"), ("abc", "!"), ("_b_", "!"), ("%", "%"), ("%%", "%"), ("a%%c", "%"), ("a%_c", "%"), ("a%c", "%"), ("_", "_"),
    ("__", "_"), ("a__c", "_"), ("a_%c", "_"), ("a\\%c", "\\"), ("a\\\\c", "\\"), ("\\\\\\%", "\\"), ("a\\c", "\\"), ("\\", "\\"), ("a", ""),
    ("a%", ""), ("a", "ab"), ("a", "a"), ("aa", "a"), ("a%", "a"), ("a.%c", "."), ("a*%c", "*"), ("a[%c", "["), ("a[[c", "["), ("a]%c", "]"),
    ("a(%c", "("), ("a^%c", "^"), ("a$%c", "$"), ("a|%c", "|"), ("a+%c", "+"), ("a?%c", "?"), ("a-%c", "-"), ("aä%c", "ä"), ("a😀%c", "😀"),
    ("a\n%c", "\n"), ("a %c", " "), ("abb", "b"), ("", "!"), ("a!\nc", "!"),
)  # fmt: skip
_SIMILAR = (
    "", "a", "a%", "%c", "%b%", "a_c", "_", "%", "a|b", "(a|b)c", "a(b|X)c", "(a|ab)(c|bc)", "a*", "a+", "a*b+", "aa?b", "[abc]", "[abc]+", "[a-c]+",
    "[^a]%", "[^a]+", "a{2}b", "a{1,3}b{3}", "a{2,}%", "(abc){2}", "(abc)+", "[[:ALPHA:]]+", "[[:alpha:]]+", "[[:DIGIT:]]", "[[:UPPER:]]+",
    "[:ALPHA:]+", "[[:ALNUM:]]+", "[[:SPACE:]]", "[[:WHITESPACE:]]", "[^[:ALPHA:]]+", "a.c", "^a$", "a$", "a\\c", "\\", "\\\\", "a\\%c", "(", ")",
    "(a", "a)", "[", "]", "[a", "[]", "*", "+", "a**", "?", "a??", "{", "a{", "a}", "a{2", "a{x}", "|", "a|", "|a", "a||b", "()", "(a|)", "[%]",
    "[_]", "[a_]", "[^_]", "a[_]c", "a[%]c", "[.]", "[a-]", "[-a]", "[\\]", "%(b|c)%", "_%", "%%", "ä|😀", "a😀c", "a\nc", "%\n%", "7", "[0-9]",
    "[A-Z]+", "[a-cA-C]*", "(a_c|a%b)", "a-c", "a&c", "[a&&b]", "[^-]", "(?i)abc", "a(?=b)%",
)  # fmt: skip
_SIMILAR_ESCAPED = (
    ("a!%c", "!"), ("a!_c", "!"), ("a!!c", "!"), ("!a", "!"), ("a!", "!"), ("!(ab!)", "!"), ("a!|b", "!"), ("a!+b", "!"), ("a!*c", "!"),
    ("![abc!]", "!"), ("a!{2!}", "!"), ("[!%]", "!"), ("[!_]", "!"), ("[!!]", "!"), ("a[!%]c", "!"), ("a\\*c", "\\"), ("a\\.c", "\\"),
    ("\\\\", "\\"), ("a%%c", "%"), ("a", ""), ("a", "ab"), ("a|b", "|"), ("a||b", "|"), ("[a-c]", "-"), ("[[c", "["), ("a..c", "."), ("!^a$", "!"),
    ("!^a!$", "!"), ("a!-c", "!"), ("a!?", "!"),
)  # fmt: skip


def literal(text: str | None) -> str:
    """Returns it in SQL."""
    if text is None:
        return "CAST(NULL AS STRING)"
    return "'" + text.replace("'", "''") + "'"


def _texts(pattern: str | None = "") -> list[list[str | None]]:
    return [[text, pattern] for text in TEXTS]


def case(expression: str, rows: list[list[str | None]] | None = None) -> dict[str, Any]:
    return {"expression": expression, "rows": rows or _texts()}


def cases() -> Iterator[dict[str, Any]]:
    for pattern in _LIKES:
        yield case(f"s LIKE {literal(pattern)}")
        yield case(f"s LIKE p || {literal(pattern)}")
    for pattern in ("a%", "a_c", "%", "", "a\\%c"):
        yield case(f"s NOT LIKE {literal(pattern)}")
    for pattern, escape in _ESCAPED:
        yield case(f"s LIKE {literal(pattern)} ESCAPE {literal(escape)}")
        if len(pattern) % 2:
            yield case(f"s LIKE p || {literal(pattern)} ESCAPE {literal(escape)}")
    for pattern in _SIMILAR:
        yield case(f"s SIMILAR TO {literal(pattern)}")
    for pattern in ("a%", "[abc]+", "(", "a|b"):
        yield case(f"s SIMILAR TO p || {literal(pattern)}")
        yield case(f"s NOT SIMILAR TO {literal(pattern)}")
    for pattern, escape in _SIMILAR_ESCAPED:
        yield case(f"s SIMILAR TO {literal(pattern)} ESCAPE {literal(escape)}")
    yield case("s LIKE CAST(NULL AS STRING)")
    yield case("s NOT LIKE CAST(NULL AS STRING)")
    yield case("s SIMILAR TO CAST(NULL AS STRING)")
    yield case("s LIKE 'a' ESCAPE CAST(NULL AS STRING)")
    yield case("s LIKE p", [["a", None], ["a", "a"], [None, "a"], [None, None]])
    yield case("s LIKE s")
    yield case("s SIMILAR TO p", [["a", None], ["a", "a"], [None, "a"], [None, None]])
    yield case("CAST(s AS CHAR(3)) LIKE 'a%'")
    yield case("UPPER(s) LIKE 'A%' OR s LIKE '%c'")
    yield case("s LIKE 'a!%c' ESCAPE p", _texts("!"))
    yield case("s LIKE p || '%'", _texts("a"))
