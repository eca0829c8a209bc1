"""Keyed state makes the same of ``None`` and of what is no value on all backends, before and after a restore, with a time-to-live and without:
what PyFlink 2.3 makes of it (``record_nones.py``), but for what ``OURS`` names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.pyflink.nones import SCRIPTS, TYPES, function
from tests.contract.pyflink.record_nones import FOUND
from tests.contract.pyflink.returns import api
from tidegate.common import Time, Types
from tidegate.datastream import DataStream
from tidegate.datastream.state import StateTtlConfig
from tidegate.testing import OperatorHarness

RECORDED = {(kind, name): seen for kind, name, seen in json.loads(FOUND.read_text())}
OURS = {
    ("list", "add(a), update(None)"): ["raised TypeError", "[1]"],
    ("map", "put_all({k: None})"): ["[[('k', None)], [('k', True, None)], False]"],
    ("map", "put_all({k: None, l: a})"): ["[[('k', None), ('l', 1)], [('k', True, None), ('l', True, 1)], False]"],
    ("map", "put_all({})"): ["[[], [], True]"],
    ("map", "put(k, None)"): ["[[('k', None)], [('k', True, None)], False]"],
    ("map", "put(k, a), put(k, None)"): ["[[('k', None)], [('k', True, None)], False]"],
    ("map", "put_all(pairs)"): ["[[('k', 1), ('l', None)], [('k', True, 1), ('l', True, None)], False]"],
    ("map", "put(None, a)"): ["raised TypeError", "[[], [], True]"],
    ("reducing", "add(None), add(a)"): ["1"],
}
"""PyFlink's put_all takes no dict, though it is declared to; an entry whose value is ``None`` is contained, as in Java; no entry has the key
``None``, which no checkpoint could hold; and what is refused changes nothing."""


def piece(stream: DataStream, kind: str, name: str, type_name: str, expires: bool) -> DataStream:
    case = function(api("tidegate"), kind, name, type_name)
    if expires:
        case = Expiring(case)
    return stream.key_by(lambda _: "k", Types.STRING()).process(case, Types.STRING())


class Expiring(api("tidegate").KeyedProcessFunction):  # type: ignore[misc]
    """A case whose states have a time-to-live."""

    def __init__(self, case: Any) -> None:
        self.case = case

    def open(self, runtime_context: Any) -> None:
        self.case.open(_WithTtl(runtime_context))

    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.case.process_element(value, ctx)


class _WithTtl:
    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        def state(descriptor: Any) -> Any:
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
            return getattr(self._context, name)(descriptor)

        return state


@pytest.mark.parametrize("expires", [False, True], ids=["", "ttl"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("type_name", TYPES)
def test_state_makes_the_same_of_none_everywhere(backend: str, type_name: str, expires: bool) -> None:
    configuration = {"state.backend.type": backend}
    assert list(RECORDED) == SCRIPTS
    for (kind, name), seen in RECORDED.items():
        expected = OURS.get((kind, name), seen)

        def make(stream: DataStream, kind: str = kind, name: str = name) -> DataStream:
            return piece(stream, kind, name, type_name, expires)

        with OperatorHarness(make, Types.STRING(), configuration=configuration) as one:
            one.push("write")
            assert one.output == expected, name
            snapshot = one.snapshot()
        with OperatorHarness(make, Types.STRING(), configuration=configuration, restore=snapshot) as again:
            again.push("read")
            assert again.output == expected[-1:], name
