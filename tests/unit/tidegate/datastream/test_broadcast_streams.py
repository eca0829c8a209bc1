"""Broadcast streams in a program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.unit.tidegate.datastream.graph_kit import make_env, numbers, partitioners, program_of, same
from tidegate.common import Types
from tidegate.functions.interfaces import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from tidegate.functions.state import MapStateDescriptor, ValueStateDescriptor
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import Partitioner

RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())


class Plain(BroadcastProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return (value,)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return ()


class Keyed(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return (value,)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return ()


def test_a_broadcast_side_reaches_every_subtask() -> None:
    env = make_env()
    rules = numbers(env).broadcast(RULES)
    numbers(env).rebalance().connect(rules).process(Plain(), Types.LONG()).print()
    job = env.build()
    assert partitioners(job) == [Partitioner.REBALANCE, Partitioner.BROADCAST]
    assert program_of(job, 2).operators[0].name == "Co-Process-Broadcast"


def test_beside_a_keyed_stream_its_key_is_kept() -> None:
    env = make_env()
    numbers(env).key_by(same).connect(numbers(env).broadcast(RULES)).process(Keyed()).print()
    job = env.build()
    assert partitioners(job) == [Partitioner.HASH, Partitioner.BROADCAST]
    assert program_of(job, 2).operators[0].key is not None


def test_what_does_not_fit_is_refused() -> None:
    env = make_env()
    rules = numbers(env).broadcast(RULES)
    with pytest.raises(InvalidJob, match="needs a BroadcastProcessFunction"):
        numbers(env).connect(rules).process(Keyed())
    with pytest.raises(InvalidJob, match="needs a KeyedBroadcastProcessFunction"):
        numbers(env).key_by(same).connect(rules).process(Plain())
    with pytest.raises(InvalidJob, match="needs a MapStateDescriptor"):
        numbers(env).broadcast(ValueStateDescriptor("v", Types.LONG()))  # type: ignore[call-overload]
    with pytest.raises(InvalidJob, match="different environments"):
        numbers(make_env()).connect(rules)
