from __future__ import annotations

import collections
import dataclasses
import datetime
import pickle
import sys
from typing import Any

import cloudpickle
import pytest

from tidegate.state_reader import Pickled, plain_value, type_name

RAN: list[str] = []


class Trap:
    """Would be called by an ordinary unpickler."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (RAN.append, ("trapped",))


@pytest.mark.parametrize(
    ("value", "name"),
    [(5, "int"), ("a", "str"), (None, "NoneType"), ((1, "a", (2.5,)), "tuple"), ({"a": [1]}, "dict"), ({1, 2}, "set")],
)
def test_plain_values_come_back(value: object, name: str) -> None:
    content = pickle.dumps(value, protocol=5)
    assert plain_value(content) == value
    assert type_name(content) == name


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (datetime.date(2024, 1, 2), "datetime.date"),
        (collections.Counter("ab"), "collections.Counter"),
        ([datetime.date(2024, 1, 2)], "list"),
        ((datetime.date(2024, 1, 2), 1), "tuple"),
    ],
)
def test_objects_are_told_by_the_outermost_type(value: object, name: str) -> None:
    content = pickle.dumps(value, protocol=5)
    assert plain_value(content) == Pickled(name, content)
    assert str(plain_value(content)) == f"<{name}, {len(content)} bytes>"


def test_classes_that_cloudpickle_packed_whole_keep_their_name() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__", "dataclasses": dataclasses}
    exec("import enum\n@dataclasses.dataclass\nclass D:\n  x: int = 1\nclass E(enum.Enum):\n  A = 1", namespace)
    assert type_name(cloudpickle.dumps(namespace["D"](), protocol=5)) == "__main__.D"
    assert type_name(cloudpickle.dumps(namespace["E"].A, protocol=5)) == "__main__.E"
    assert type_name(cloudpickle.dumps(lambda x: x, protocol=5)) == "function"


def test_nothing_of_a_pickle_is_imported_or_called() -> None:
    content = pickle.dumps(Trap(), protocol=5)
    assert isinstance(plain_value(content), Pickled)
    assert RAN == []
    missing = pickle.dumps(datetime.date(2024, 1, 2), protocol=2).replace(b"datetime", b"antigrav")
    assert type_name(missing) == "antigrav.date"
    assert "antigrav" not in sys.modules


@pytest.mark.parametrize("content", [b"", b"nonsense", pickle.dumps([1, 2])[:-3]])
def test_bytes_that_are_no_pickle(content: bytes) -> None:
    assert plain_value(content) == Pickled("?", content)
