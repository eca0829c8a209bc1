"""The worst patterns of our English stay out. A ratchet: what is still there is counted, and the counts only go down.

A docstring is a sentence: it says what a function does or returns ("Returns the ...", "Tells whether ..."), or what a class or
constant is, so that it can be understood without the signature. Comments say why, and tell no history: git does.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, name_of, python_files, tree_of

PRODUCT = ("tidegate/", "jobmanager/", "taskmanager/", "cli/")
SLACK = 20
"""So far below its limit a count may be before the limit has to follow: two changes at once need not meet here."""

DOCSTRINGS = {
    "a subject is missing": re.compile(r"\A(Of |Likewise\b|The same[.:,]|The same (of|for|to|on|from) )"),
    "somebody unnamed": re.compile(r"\b(nobody|somebody|anybody|everybody|whoever)\b", re.IGNORECASE),
}
PROSE = {
    "'told' for reported, sent, notified": re.compile(r"\b(is|are|was|were|be|been|being|not|yet|last) told\b|\btold (of|to|by|in|as|at)\b"),
    "'who' without an antecedent": re.compile(r"\b(for|by|with|to|of) who\b|\A\W*[Ww]ho (has|is|does|wants|asks|reads)\b"),
    "'no more' for gone": re.compile(r"\b(is|are|was|were) (there )?no more\b|\bno more there\b|\bany more\b"),
    "history": re.compile(r"\b(no longer|formerly|previously|used to be|used to have|as said|since then it)\b"),
}  # fmt: skip
OF_PAGES = ("somebody unnamed", "'told' for reported, sent, notified", "'no more' for gone")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HASH = re.compile(r"#.*")
LIMITS: dict[str, dict[str, int]] = {
    "product": {"a subject is missing": 3, "somebody unnamed": 20},
    "tests": {
        "a subject is missing": 30,
        "somebody unnamed": 45,
        "'told' for reported, sent, notified": 28,
        "'who' without an antecedent": 1,
        "'no more' for gone": 7,
        "history": 2,
    },
}


@pytest.mark.parametrize("folder", ["product", "tests"])
def test_no_pattern_comes_back(folder: str) -> None:
    places = _places(folder)
    counts = {pattern: len(found) for pattern, found in places.items()}
    limits = {pattern: LIMITS[folder].get(pattern, 0) for pattern in counts}
    beyond = {pattern: places[pattern] for pattern, limit in limits.items() if counts[pattern] > limit}
    assert beyond == {}
    assert {pattern: counts[pattern] for pattern, limit in limits.items() if limit > counts[pattern] + SLACK} == {}


def test_pages_have_none() -> None:
    """What is no longer so may be said to readers, and a table of decisions asks who decides."""
    patterns = {name: expression for name, expression in (DOCSTRINGS | PROSE).items() if name in OF_PAGES}
    found = [
        f"{name_of(path)}:{number}: {pattern}: {line.strip()[:100]}"
        for path in _pages()
        for number, line in enumerate(_FENCE.sub(_blank, path.read_text(encoding="utf-8")).splitlines(), 1)
        for pattern, expression in patterns.items()
        if expression.search(line)
    ]
    assert found == []


def _pages() -> Iterator[Path]:
    """What users and newcomers read. Decisions keep their words, and generated pages are written elsewhere."""
    for folder in (
        ".",
        "examples",
        "docs",
        *(f"docs/{name}" for name in ("tutorial", "gallery", "concepts", "guide", "internals")),
    ):
        for path in sorted((ROOT / folder).glob("*.md")):
            is_generated = path.read_text(encoding="utf-8").startswith("<!-- Generated")
            if not is_generated and path.name != "CHANGELOG.md":
                yield path


def _blank(fence: re.Match[str]) -> str:
    return "\n" * fence[0].count("\n")


def test_the_patterns_find_what_they_are_for() -> None:
    found = Counter(
        pattern
        for pattern, expression in (DOCSTRINGS | PROSE).items()
        for text in ("Of the keys.", "nobody asks", "it is told late", "for who reads", "is there no more", "no longer")
        if expression.search(text)
    )
    assert found == Counter(dict.fromkeys(DOCSTRINGS | PROSE, 1))


@cache
def _places(folder: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {pattern: [] for pattern in DOCSTRINGS | PROSE}
    for path in python_files():
        name = name_of(path)
        if not name.startswith(PRODUCT if folder == "product" else "tests/") or path == Path(__file__):
            continue
        for kind, line, text in _texts(path):
            for pattern, expression in (PROSE | (DOCSTRINGS if kind == "docstring" else {})).items():
                if expression.search(text):
                    found[pattern].append(f"{name}:{line}: {text[:100]}")
    return found


def _texts(path: Path) -> Iterator[tuple[str, int, str]]:
    """Docstrings (those of attributes too) and comments, each on one line."""
    for node in ast.walk(tree_of(path)):
        for part in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if (
                isinstance(part, ast.Expr)
                and isinstance(part.value, ast.Constant)
                and isinstance(part.value.value, str)
            ):
                yield "docstring", part.lineno, " ".join(part.value.value.split())
    source = path.read_text(encoding="utf-8")
    if not any(expression.search(line) for line in _HASH.findall(source) for expression in PROSE.values()):
        return  # tokens take much longer
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield "comment", token.start[0], token.string
