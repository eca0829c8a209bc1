"""docs/architecture.md, "The shapes of a fact": the types of each fact are where the page says (`tests/shape.py` counts them)."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.source import ROOT, tree_of

_ROW = re.compile(r"^\| ([a-z ]+) \| `(\w+)` \| `([a-z_/]+\.(?:py|proto))` \|$", re.MULTILINE)
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## The shapes of a fact\n")[2].partition("\n## ")[0]
ROWS: list[tuple[str, str, str]] = _ROW.findall(SECTION)


def test_every_row_of_the_table_is_read() -> None:
    assert len(ROWS) == SECTION.count("\n| ") - 1, "a row is not `fact | type | file`"
    assert len(set(ROWS)) == len(ROWS)


@pytest.mark.parametrize(("fact", "name", "file"), ROWS)
def test_the_type_is_where_the_page_says(fact: str, name: str, file: str) -> None:
    path = ROOT / file
    if path.suffix == ".proto":
        found = set(re.findall(r"^ *message (\w+) \{", path.read_text(encoding="utf-8"), re.MULTILINE))
    else:
        found = {node.name for node in tree_of(path).body if isinstance(node, ast.ClassDef)}
    assert name in found, fact
