"""What tests of keyed operators share: a type, a key, specs and an aggregate."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.taskmanager.operators.harness import CONFIGURATION, spec
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.functions.interfaces import AggregateFunction
from tidegate.model.program import KeySpec, OperatorSpec

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


@pytest.fixture(autouse=True, params=["hashmap", "rocksdb"])
def backends(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that imports it has all its tests run on every backend."""
    monkeypatch.setitem(CONFIGURATION, "state.backend.type", request.param)


def first(value: Any) -> Any:
    return value[0]


def keyed(kind: str = "keyed_process", key_type: TypeInformation | None = None, **options: Any) -> OperatorSpec:
    key = KeySpec(selector=first, key_type=key_type)
    return spec(kind, input_types=(PAIR, PAIR), output_type=PAIR, key=key, second_key=key, options=options)


class MeanAggregate(AggregateFunction):
    def create_accumulator(self) -> Any:
        return [0, 0]

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[0] += value[1]
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]
