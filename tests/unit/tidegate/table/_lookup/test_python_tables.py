"""Classes of users that lookup joins ask: what they are given, what they may answer, and what is said of what is wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from tidegate.aio.async_calls import AsyncCalls, CallOutcome
from tidegate.common.row import Row
from tidegate.functions.base import RuntimeContext
from tidegate.model.errors import InvalidJob, SchemaMismatch, UserFunctionError
from tidegate.plan.logical_types import parse_type
from tidegate.table import AsyncLookupFunction, FunctionContext, LookupFunction
from tidegate.table._connectors.registry import check_table
from tidegate.table._connectors.shape import TableShape
from tidegate.table._execution.python_lookups import AsyncPythonTable, PythonTable
from tidegate.table._lookup.port import FoundRows

CONTEXT = cast("RuntimeContext", None)
"""No class here asks it for anything."""
TYPE = parse_type("ROW<name STRING, id INT, price DECIMAL(10, 2), tags ARRAY<STRING>>")
WHERE = f"{__name__}.Prices"


class Prices(LookupFunction):
    """``answers``: by key."""

    def __init__(self, factor: str = "1", answers: Any = None) -> None:
        self.factor, self.answers = int(factor), answers or {}
        self.calls: list[Any] = []

    def open(self, function_context: FunctionContext) -> None:
        self.calls.append("open")

    def lookup(self, key_row: Row) -> Iterable[Any]:
        self.calls.append(key_row.as_dict())
        found: Iterable[Any] = self.answers.get(key_row["id"], [])
        return found

    def close(self) -> None:
        self.calls.append("close")


class Together(LookupFunction):
    def lookup(self, key_row: Row) -> Iterable[Any]:
        raise AssertionError("lookup_many is asked")

    def lookup_many(self, key_rows: Sequence[Row]) -> Sequence[Iterable[Any]]:
        return [[("all", row["id"], len(key_rows), None)] for row in key_rows[: 3 - len(key_rows) % 2]]


class Slow(AsyncLookupFunction):
    """Answers when so many are asked at the same time."""

    def __init__(self, together: int) -> None:
        self.together, self.most, self.now = together, 0, 0
        self.free = asyncio.Event()

    async def async_lookup(self, key_row: Row) -> Iterable[Any]:
        key = key_row["id"]
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now >= self.together:
            self.free.set()
        await self.free.wait()
        self.now -= 1
        return [{"id": key, "name": f"name {key}"}]


def keys(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(values, pa.int32())})


def table_of(function: LookupFunction) -> PythonTable:
    made = PythonTable(function, TYPE, [1, 0, 2, 3], [0])
    made.open(CONTEXT)
    return made


class Asked:
    """An asynchronous table that is asked by a thread of calls, as its operator does."""

    def __init__(self, function: AsyncLookupFunction, *, timeout_s: float = 30.0) -> None:
        self._timeout_ms = round(timeout_s * 1000)
        self._table = AsyncPythonTable(function, TYPE, [1, 0], [0], timeout_s=timeout_s)
        self._table.open(CONTEXT)

    def look_up(self, batch: pa.RecordBatch) -> FoundRows:
        ready = threading.Event()
        made: AsyncCalls[list[Any]] = AsyncCalls(ready.set)
        answers: dict[int, CallOutcome[list[Any]]] = {}
        try:
            for number, call in enumerate(self._table.calls(batch)):
                made.submit(number, call.invoke, call.on_timeout, timeout_ms=self._timeout_ms)
            while len(answers) < batch.num_rows:
                assert ready.wait(60)
                ready.clear()
                answers.update((one.number, one) for one in made.take())
        finally:
            made.close()
        for one in answers.values():
            if one.error is not None:
                raise one.error
        return self._table.found(np.arange(batch.num_rows), [answers[at].result or [] for at in range(batch.num_rows)])


def names_in(found: FoundRows) -> list[tuple[int, str]]:
    return list(zip(found.keys.tolist(), found.rows.column("name").to_pylist(), strict=True))


def test_rows_are_tuples_lists_rows_and_dicts_of_all_columns() -> None:
    answers = {
        1: [("a", 1, Decimal("1.5"), ["x"]), ["b", 1, None, None]],
        2: (row for row in [Row("c", 2, Decimal(2), [])]),
        3: [{"id": 3, "name": "d"}],
    }
    function = Prices(answers=answers)
    table = table_of(function)
    found = table.look_up(keys(3, 9, 1, 2))
    table.close()
    assert names_in(found) == [(0, "d"), (2, "a"), (2, "b"), (3, "c")]
    assert found.rows.column("price").to_pylist() == [None, Decimal("1.50"), None, Decimal("2.00")]
    assert found.rows.column("tags").to_pylist() == [None, ["x"], None, []]
    assert function.calls == ["open", {"id": 3}, {"id": 9}, {"id": 1}, {"id": 2}, "close"]


def test_one_question_may_be_for_all_keys() -> None:
    assert names_in(table_of(Together()).look_up(keys(5, 6))) == [(0, "all"), (1, "all")]
    with pytest.raises(SchemaMismatch, match=r"Together: lookup_many\(\) returned 2 answers to 3 keys"):
        table_of(Together()).look_up(keys(5, 6, 7))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([("a", 1)], r"it returned \('a', 1\), of 2 values, and the columns are name, id, price, tags"),
        ([{"id": 1, "nam": "a"}], "it returned a row with 'nam', and the columns are name, id, price, tags"),
        ([("a", "x", None, None)], r"it returned 'x' \(str\) where INT is declared"),
        ("ab", "the rows of a key are a list of rows, and it returned 'ab'"),
        ({"id": 1}, "the rows of a key are a list of rows"),
        (7, "the rows of a key are a list of rows, and it returned 7"),
    ],
)
def test_what_is_no_row_is_named(answer: Any, said: str) -> None:
    with pytest.raises(SchemaMismatch, match=f"the function Prices.*{said}"):
        table_of(Prices(answers={1: answer})).look_up(keys(1))


def test_what_a_class_raises_is_its_fault() -> None:
    with pytest.raises(UserFunctionError, match="the function Prices .*raised AttributeError"):
        table_of(Prices(answers=7)).look_up(keys(1))


def test_an_asynchronous_class_is_asked_for_all_keys_at_the_same_time() -> None:
    function = Slow(together=3)
    table = Asked(function)
    assert names_in(table.look_up(keys(5, 4, 3))) == [(at, f"name {5 - at}") for at in range(3)]
    assert function.most == 3


def test_a_key_that_takes_too_long_fails_the_job_with_its_name() -> None:
    with pytest.raises(UserFunctionError, match=r"Async lookup function call has timed out after 0.01 s") as raised:
        Asked(Slow(together=2), timeout_s=0.01).look_up(keys(1))
    assert raised.value.inputs[0][0]["id"] == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Missing required options are:\n\nclass"),
        ({"class": "Prices"}, "'class' = 'Prices': say module.Name"),
        ({"class": "nowhere.Prices"}, "there is no module 'nowhere': give its file with -pyfs"),
        ({"class": f"{__name__}.Price"}, "has no 'Price'"),
        ({"class": f"{__name__}.keys"}, "it is neither a LookupFunction nor an AsyncLookupFunction"),
        ({"class": WHERE, "arguments.facto": "2"}, "unexpected keyword argument 'facto'"),
        ({"class": WHERE, "lookup.cache": "FULL"}, "a lookup class is asked by key and cannot be read whole"),
        ({"class": WHERE, "lookup.cache": "PARTIAL"}, "a cache that is PARTIAL needs a bound"),
        ({"class": WHERE, "lookup.cache": "SOME"}, "'SOME' is not one of NONE, PARTIAL, FULL"),
        ({"class": WHERE, "lookup.partial-cache.max-rows": "5"}, "needs 'lookup.cache' = 'PARTIAL', but that is NONE"),
    ],
)
def test_options_that_cannot_be_are_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        check_table(TableShape("t"), {"connector": "python", **options}, is_source=True)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "jdbc:mysql://h/d"}, "any jdbc dialect factory that can handle url 'jdbc:mysql://h/d'"),
        ({"driver": "com.mysql.Driver"}, "cannot load Java classes"),
        ({"password": "x"}, "Either all or none of the following options should be provided:\nusername\npassword"),
        ({"lookup.max-retries": "-1"}, "'-1' is not a whole number from 0"),
        ({"lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "0"}, "'0' is not a whole number from 1"),
        (
            {"lookup.cache": "PARTIAL", "lookup.partial-cache.expire-after-write": "x"},
            "'x' is not a duration, such as 10 min",
        ),
        ({"lookup.cache": "FULL", "lookup.partial-cache.max-rows": "5"}, "needs 'lookup.cache' = 'PARTIAL'"),
    ],
)
def test_options_of_databases_that_cannot_be_are_named(options: dict[str, str], said: str) -> None:
    given = {"connector": "jdbc", "url": "jdbc:postgresql://h/d", "table-name": "t", **options}
    with pytest.raises(InvalidJob) as refused:
        check_table(TableShape("t"), given, is_source=True)
    assert said in refused.value.message


def test_older_names_of_options_make_a_cache() -> None:
    old = {"lookup.cache.max-rows": "5", "lookup.cache.ttl": "1 min"}
    given = {"connector": "jdbc", "url": "jdbc:postgresql://h/d", "table-name": "t", **old}
    assert check_table(TableShape("t"), given, is_source=True) == "append"


def test_a_table_of_files_is_read_whole() -> None:
    given = {"connector": "filesystem", "path": "/x", "format": "csv", "lookup.cache": "PARTIAL"}
    with pytest.raises(InvalidJob, match="tables of files are read whole, so only FULL is possible"):
        check_table(TableShape("t"), given, is_source=True)
