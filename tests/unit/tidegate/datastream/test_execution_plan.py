"""The plan shows PyFlink's operators around keys, and a sink behind a key gets the records where their keys belong."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.tidegate.datastream.graph_kit import make_env, numbers, partitioners, same
from tidegate.common import Types
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.model.graph import Partitioner

LONG = Types.LONG()


def shown(env: StreamExecutionEnvironment) -> list[tuple[str, list[tuple[str, str]]]]:
    """Each node's type with those of its inputs, and how records come from them."""
    nodes: list[dict[str, Any]] = json.loads(env.get_execution_plan())["nodes"]
    names = {node["id"]: node["type"] for node in nodes}
    return [(n["type"], [(names[p["id"]], p["ship_strategy"]) for p in n.get("predecessors", ())]) for n in nodes]


def test_a_keyed_operator_reads_an_operator_that_adds_the_key() -> None:
    env = make_env()
    keyed = numbers(env).map(same, LONG).key_by(same, LONG)
    keyed.reduce(max)
    keyed.sum()
    assert shown(env)[2:] == [
        ("_stream_key_by_map_operator", [("Map", "FORWARD")]),
        ("Reduce", [("_stream_key_by_map_operator", "HASH")]),
        ("Sum", [("_stream_key_by_map_operator", "HASH")]),
    ]


def test_a_sink_behind_a_key_reads_the_values() -> None:
    env = make_env()
    numbers(env).key_by(same, LONG).print()
    assert shown(env)[1:] == [
        ("_stream_key_by_map_operator", [("Source: numbers", "FORWARD")]),
        ("_keyed_stream_values_operator", [("_stream_key_by_map_operator", "HASH")]),
        ("Sink: Print to Std. Out", [("_keyed_stream_values_operator", "FORWARD")]),
    ]
    assert partitioners(env.build()) == [Partitioner.HASH]


def test_a_union_of_keyed_streams_keeps_records_where_their_keys_belong() -> None:
    env = make_env()
    first, second = numbers(env).key_by(same, LONG), numbers(env).key_by(same, LONG)
    first.union(second).print()
    assert shown(env)[-1][1] == [("_keyed_stream_values_operator", "FORWARD")] * 2
    assert partitioners(env.build()) == [Partitioner.HASH] * 2
