"""docs/architecture.md, "Where is it decided?": each question has one file and one name in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_ROW = re.compile(r"^\| ([^|]+\?) \| `([a-z_/]+\.py)` \| `(\w+)` \|$", re.MULTILINE)
ROWS = _ROW.findall((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))


def test_at_least_twelve_questions_are_answered_each_by_another_class() -> None:
    assert len(ROWS) >= 12
    assert len({(file, name) for _, file, name in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("question", "file", "name"), ROWS)
def test_the_answer_is_where_the_page_says(question: str, file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {
        node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }, question
