"""Flink's half of the Nexmark comparison is complete: a statement for each query, and a function in Java for each that SQL calls."""

from __future__ import annotations

import re

import pytest

from benchmarks.nexmark import events, flink
from benchmarks.nexmark.queries import QUERIES


def test_every_query_is_there_in_flink_too() -> None:
    assert set(flink.SQL) == set(QUERIES)


def test_every_function_is_there_in_java() -> None:
    declared = set(re.findall(r"static final class (\w+) extends ScalarFunction", flink.SOURCE.read_text()))
    assert declared == set(flink._FUNCTIONS.values())


def test_words_that_java_picks_from_are_in_the_jar() -> None:
    files = set(re.findall(r'words\("(\w+)\.txt"\)', flink.SOURCE.read_text()))
    assert files <= set(events.WORDS)


@pytest.mark.parametrize("kind", sorted(events.KINDS))
def test_views_have_the_columns_that_queries_read(kind: str) -> None:
    (view,) = (statement for statement in flink.setup(flink.SOURCE)[1] if f"VIEW {kind} " in statement)
    named = set(re.findall(r"AS (\w+)", view.partition("SELECT")[2])) - {"TIMESTAMP"}
    assert named - {"proc_time"} <= set(events.KINDS[kind][0])
