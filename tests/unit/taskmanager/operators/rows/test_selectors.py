"""Keys by a selector are the same in front of an exchange and behind it, whatever the types do to values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.taskmanager.operators.harness import spec, start
from tidegate.columnar.keys.hashing import hash_columns
from tidegate.common.row import Row
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.functions.adapters import KeyOf
from tidegate.functions.interfaces import KeyedProcessFunction, KeySelector, RuntimeContext
from tidegate.model.errors import SchemaMismatch, UserFunctionError
from tidegate.model.program import KeySpec
from tidegate.records.batch import RecordsBatch
from tidegate.records.keys import hash_keys
from tidegate.taskmanager.operators.rows.selectors import KeyFunction, survives
from tidegate.taskmanager.runtime.conversion import BothShapes

PAIR = Types.TUPLE([Types.DOUBLE(), Types.FLOAT()])
CASES: list[tuple[TypeInformation, list[Any], Callable[[Any], Any]]] = [
    (Types.DOUBLE(), [1, 2.5, 3], lambda value: value),
    (Types.FLOAT(), [0.1, 0.2, 1], lambda value: value),
    (PAIR, [(1, 0.1), (2.0, 0.5)], lambda pair: pair),
    (PAIR, [(1, 0.1), (2.0, 0.5)], lambda pair: f"{pair[0]}/{pair[1]}"),
    (Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.DOUBLE()]), [Row(a=1, b=2)], lambda row: row["b"]),
    (Types.LIST(Types.FLOAT()), [[0.1], [1, 2]], tuple),
    (Types.BIG_INT(), [5, -5, 2**80], lambda value: value),
    (Types.BIG_DEC(), [5, 1], lambda value: value),
]


@pytest.mark.parametrize(("kind", "values", "select"), CASES)
def test_a_key_of_what_is_sent_is_the_key_of_what_is_received(
    kind: TypeInformation, values: list[Any], select: Callable[[Any], Any]
) -> None:
    keys = KeyFunction(KeySpec(selector=select), "keys")
    sent = BothShapes(RecordsBatch(values), kind, "op")
    received = BothShapes(sent.columns(), kind, "op").records()
    before = hash_keys(keys.keys_of(sent.as_received().values)).tolist()
    assert before == hash_keys(keys.keys_of(received.values)).tolist()


@pytest.mark.parametrize("kind", [Types.BIG_INT(), Types.LONG(), Types.DOUBLE(), Types.STRING()])
def test_a_key_column_hashes_like_its_records(kind: TypeInformation) -> None:
    values = ["a", "b"] if kind == Types.STRING() else [5.0, -7.0] if kind == Types.DOUBLE() else [5, -7, 2**40]
    columns = BothShapes(RecordsBatch(values), kind, "op").columns()
    assert hash_columns(columns.data.columns).tolist() == hash_keys(values).tolist()


def test_records_that_come_out_as_they_went_in_are_not_converted() -> None:
    assert survives(Types.TUPLE([Types.LONG(), Types.DOUBLE()]), [(1, 2.0), (2, None)])
    assert not survives(Types.TUPLE([Types.LONG(), Types.DOUBLE()]), [(1, 2.0), (2, 3)])
    assert survives(Types.PICKLED_BYTE_ARRAY(), [object()])
    batch = BothShapes(RecordsBatch([(1, 2.0)]), Types.TUPLE([Types.LONG(), Types.DOUBLE()]), "op")
    assert batch.as_received() is batch.given


def test_a_key_has_the_form_of_its_type() -> None:
    keys = KeyFunction(KeySpec(selector=lambda value: value, key_type=Types.DOUBLE()), "keys").keys_of([1, 2.0])
    assert [(key, type(key)) for key in keys] == [(1.0, float), (2.0, float)]
    with pytest.raises(SchemaMismatch, match="^selector of x: a value does not fit"):
        KeyFunction(KeySpec(selector=lambda value: value, key_type=Types.DOUBLE()), "selector of x").keys_of(["a"])


def test_what_a_selector_raises_names_it() -> None:
    with pytest.raises(UserFunctionError, match="'key selector of x': ZeroDivisionError"):
        KeyFunction(KeySpec(selector=lambda value: 1 // value), "key selector of x").keys_of([0])


class Remainder(KeySelector):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.calls.append(f"open {runtime_context.get_job_parameter('divisor', '?')}")
        self.divisor = int(runtime_context.get_job_parameter("divisor", "0"))

    def get_key(self, value: int) -> int:
        return value % self.divisor

    def close(self) -> None:
        self.calls.append("close")


class Keys(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[Any]:
        return [ctx.get_current_key()]


def test_a_key_selector_is_opened_with_the_job_parameters_and_closed() -> None:
    selector = Remainder()
    one = start(
        spec(
            "keyed_process",
            key=KeySpec(selector=KeyOf(selector)),
            input_types=(Types.LONG(),),
            options={"func": Keys()},
        ),
        configuration={"pipeline.global-job-parameters": "divisor:3", "divisor": "99"},
    )
    one.feed([4, 5])
    assert one.out.values() == [1, 2]
    one.operator.close()
    assert selector.calls == ["open 3", "close"]
