"""What cannot be shipped is named: the operator, and the innermost object."""

from __future__ import annotations

import threading
from typing import Any

import cloudpickle
import pytest

from tests.unit.tidegate.datastream.options_kit import given
from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.datastream import DataStream, MapFunction, StreamExecutionEnvironment
from tidegate.model.errors import NotSerializable


class WithLock(MapFunction):
    def __init__(self) -> None:
        self.settings = {"retries": 3, "guard": threading.Lock()}

    def map(self, value: Any) -> Any:
        return value


def numbers() -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers")


def failure(stream: DataStream) -> str:
    stream.print()
    with pytest.raises(NotSerializable) as raised:
        stream.get_execution_environment().build()
    return str(raised.value)


def test_variable_of_a_closure() -> None:
    lock = threading.Lock()

    def guarded(value: Any) -> Any:
        with lock:
            return value

    message = failure(numbers().map(str).name("harmless").map(guarded).name("guarded map"))
    assert message.startswith("operator 'guarded map' cannot be shipped: variable 'lock' in ")
    assert "guarded (" in message
    assert "is of type 'lock'" in message
    assert "create it in open()" in message


def test_attribute_deep_inside_a_function_object() -> None:
    message = failure(numbers().map(WithLock()).name("locked"))
    assert "operator 'locked' cannot be shipped: item 'guard' is of type 'lock'" in message


def test_key_selector() -> None:
    lock = threading.Lock()
    message = failure(numbers().key_by(lambda x: (x, lock)).reduce(min))
    assert message.startswith("key_by behind operator 'Source: numbers' cannot be shipped: variable 'lock' in ")


def test_what_can_be_pickled_is() -> None:
    offset = 5
    stream = numbers().map(lambda x: x + offset, Types.LONG())
    stream.print()
    job = stream.get_execution_environment().build()
    program = cloudpickle.loads(next(iter(job.blobs.values())))
    assert given(program.operators[1])["func"](1) == 6
