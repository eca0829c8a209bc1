"""Keyed state of every kind, most keys of which come once."""

from __future__ import annotations

from tests.compat import keyed
from tests.compat.outline import Outline
from tidegate.datastream import StreamExecutionEnvironment


def build(outline: Outline) -> StreamExecutionEnvironment:
    return keyed.build(outline, keyed.once_or_often)


def check(outline: Outline) -> None:
    keyed.check(outline, keyed.once_or_often)
