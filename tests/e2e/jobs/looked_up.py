"""Tables of classes, which the job ``lookups.py`` asks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tidegate.common import Row
from tidegate.table import AsyncLookupFunction, FunctionContext, LookupFunction


class Squares(LookupFunction):
    """The square of each key that ``step`` does not divide."""

    def __init__(self, step: str) -> None:
        self.step, self.is_open = int(step), False

    def open(self, function_context: FunctionContext) -> None:
        self.is_open = True

    def lookup(self, key_row: Row) -> Iterable[tuple[int, int]]:
        assert self.is_open
        key = key_row["k"]
        return [(key, key * key)] if key % self.step else []


class Pairs(AsyncLookupFunction):
    """Two rows for each key."""

    async def async_lookup(self, key_row: Row) -> Iterable[tuple[int, int]]:
        await asyncio.sleep(0)
        return [(key_row["k"], key_row["k"] * 2), (key_row["k"], key_row["k"] * 2 + 1)]
