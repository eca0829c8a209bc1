"""From the API to the job graph: chains and edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.unit.tidegate.datastream.graph_kit import make_env, names, numbers, partitioners, program_of, same
from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import (
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedCoProcessFunction,
    OutputTag,
    ProcessFunction,
)
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import Partitioner
from tidegate.model.program import ChainLink


class TestChaining:
    def test_forward_operators_share_a_vertex_named_as_flink_does(self) -> None:
        env = make_env()
        numbers(env).map(same).filter(bool).print()
        job = env.build()
        assert names(job) == ["Source: numbers -> Map -> Filter -> Sink: Print to Std. Out"]
        assert job.graph.edges == ()

    def test_two_consumers_in_one_chain_are_a_tree(self) -> None:
        env = make_env()
        mapped = numbers(env).map(same)
        mapped.print().name("one")
        mapped.filter(bool).print().name("two")
        job = env.build()
        assert names(job) == ["Source: numbers -> Map -> (Sink: one, Filter -> Sink: two)"]
        assert program_of(job, 0).links == (ChainLink(0, 1), ChainLink(1, 2), ChainLink(1, 3), ChainLink(3, 4))

    def test_key_by_ends_a_chain_with_a_hash_edge(self) -> None:
        env = make_env()
        numbers(env).key_by(same).reduce(lambda a, b: a + b).print()
        job = env.build()
        assert names(job) == ["Source: numbers", "Reduce -> Sink: Print to Std. Out"]
        assert partitioners(job) == [Partitioner.HASH]
        sender, receiver = program_of(job, 0), program_of(job, 1)
        assert sender.outputs[0].key is not None
        assert sender.outputs[0].key.selector is same
        assert receiver.operators[0].key is not None
        assert receiver.operators[0].key.selector is same
        assert sender.outputs[0].edge_id == receiver.inputs[0].edge_id == job.graph.edges[0].edge_id

    def test_other_parallelism_ends_a_chain_with_rebalance(self) -> None:
        env = make_env()
        numbers(env).map(same).set_parallelism(3).print()
        job = env.build()
        assert [(v.name, v.parallelism) for v in job.graph.vertices] == [
            ("Source: numbers", 2),
            ("Map", 3),
            ("Sink: Print to Std. Out", 2),
        ]
        assert partitioners(job) == [Partitioner.REBALANCE, Partitioner.REBALANCE]

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            (lambda s: s.start_new_chain(), ["Source: numbers", "Map -> Sink: Print to Std. Out"]),
            (lambda s: s.disable_chaining(), ["Source: numbers", "Map", "Sink: Print to Std. Out"]),
            (lambda s: s.slot_sharing_group("own"), ["Source: numbers", "Map -> Sink: Print to Std. Out"]),
            (lambda s: s.set_max_parallelism(7), ["Source: numbers", "Map", "Sink: Print to Std. Out"]),
        ],
    )
    def test_what_breaks_a_chain_keeps_the_edge_forward(
        self, change: Callable[[DataStream], DataStream], expected: list[str]
    ) -> None:
        env = make_env()
        change(numbers(env).map(same)).print()
        job = env.build()
        assert names(job) == expected
        assert set(partitioners(job)) == {Partitioner.FORWARD}

    def test_without_chaining_every_operator_is_a_vertex(self) -> None:
        env = make_env().disable_operator_chaining()
        numbers(env).map(same).print()
        assert names(env.build()) == ["Source: numbers", "Map", "Sink: Print to Std. Out"]

    def test_timestamps_stay_with_a_source_of_other_parallelism(self) -> None:
        env = make_env()
        source = numbers(env).set_parallelism(1)
        source.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps()).print()
        assert names(env.build()) == ["Source: numbers -> Timestamps/Watermarks", "Sink: Print to Std. Out"]

    def test_slot_sharing_group_is_inherited(self) -> None:
        env = make_env()
        numbers(env).slot_sharing_group("a").map(same).key_by(same).reduce(min).print()
        assert [v.slot_sharing_group for v in env.build().graph.vertices] == ["a", "a"]


class TestPartitioners:
    @pytest.mark.parametrize(
        ("method", "expected"),
        [
            ("rebalance", Partitioner.REBALANCE),
            ("shuffle", Partitioner.REBALANCE),
            ("rescale", Partitioner.RESCALE),
            ("broadcast", Partitioner.BROADCAST),
            ("global_", Partitioner.GLOBAL),
        ],
    )
    def test_explicit(self, method: str, expected: Partitioner) -> None:
        env = make_env()
        getattr(numbers(env), method)().map(same).print()
        job = env.build()
        assert partitioners(job) == [expected]
        assert len(job.graph.vertices) == 2

    def test_forward_chains(self) -> None:
        env = make_env()
        numbers(env).forward().map(same).print()
        assert len(env.build().graph.vertices) == 1

    def test_forward_needs_equal_parallelism(self) -> None:
        env = make_env()
        numbers(env).forward().map(same).set_parallelism(3).print()
        with pytest.raises(
            InvalidJob, match=r"forward\(\) from 'numbers' \(parallelism 2\) to 'Map' \(parallelism 3\)"
        ):
            env.build()

    def test_the_last_partitioning_wins(self) -> None:
        env = make_env()
        numbers(env).rebalance().broadcast().map(same).print()
        assert partitioners(env.build()) == [Partitioner.BROADCAST]

    def test_partitioning_before_key_by_is_dropped_by_the_key(self) -> None:
        env = make_env()
        numbers(env).rebalance().key_by(same).reduce(min).print()
        assert partitioners(env.build()) == [Partitioner.HASH]

    def test_union_makes_one_edge_a_member(self) -> None:
        env = make_env()
        first, second = numbers(env), numbers(env).name("more")
        first.union(second.rebalance()).map(same).print()
        job = env.build()
        assert names(job) == ["Source: numbers", "Source: more", "Map -> Sink: Print to Std. Out"]
        assert partitioners(job) == [Partitioner.FORWARD, Partitioner.REBALANCE]
        assert [e.input_index for e in job.graph.edges] == [0, 0]
        assert len(program_of(job, 2).operators[0].input_types) == 1

    def test_a_stream_united_with_itself_has_two_edges(self) -> None:
        env = make_env()
        source = numbers(env)
        source.union(source).map(same).print()
        job = env.build()
        assert [e.edge_id for e in job.graph.edges] == [0, 1]
        assert [o.edge_id for o in program_of(job, 0).outputs] == [0, 1]

    def test_union_of_other_types_is_refused(self) -> None:
        env = make_env()
        with pytest.raises(InvalidJob, match="streams of one type"):
            numbers(env).union(numbers(env).map(str, Types.STRING()))


class Plus(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return -value


class TestTwoInputs:
    def test_connect_numbers_the_inputs(self) -> None:
        env = make_env()
        numbers(env).connect(numbers(env).map(str, Types.STRING())).map(Plus(), Types.LONG()).print()
        job = env.build()
        assert [e.input_index for e in job.graph.edges] == [0, 1]
        head = program_of(job, 2).operators[0]
        assert head.kind == "co_process"
        assert head.input_types == (Types.LONG(), Types.STRING())

    def test_keyed_connect_has_two_keys(self) -> None:
        env = make_env()
        numbers(env).connect(numbers(env)).key_by(same, lambda x: -x).map(Plus()).print()
        job = env.build()
        assert partitioners(job) == [Partitioner.HASH, Partitioner.HASH]
        head = program_of(job, 2).operators[0]
        assert head.kind == "keyed_co_process"
        assert head.key is not None
        assert head.second_key is not None
        assert (head.key.selector(5), head.second_key.selector(5)) == (5, -5)

    def test_one_keyed_stream_of_two_counts_as_not_keyed_until_both_are(self) -> None:
        env = make_env()
        half = numbers(env).key_by(same).connect(numbers(env))
        half.map(Plus()).print()
        half.key_by(same, same).map(Plus()).print()
        job = env.build()
        kinds = [program_of(job, i).operators[0].kind for i in range(len(job.graph.vertices))]
        assert [kind for kind in kinds if "co_process" in kind] == ["co_process", "keyed_co_process"]

    def test_a_co_process_function_may_have_keys_and_a_keyed_one_must(self) -> None:
        env = make_env()
        keyed = numbers(env).connect(numbers(env)).key_by(same, same)
        keyed.process(Both()).print()
        numbers(env).connect(numbers(env)).process(Both()).print()
        job = env.build()
        kinds = [program_of(job, i).operators[0].kind for i in range(len(job.graph.vertices))]
        assert [kind for kind in kinds if "co_process" in kind] == ["keyed_co_process", "co_process"]
        with pytest.raises(InvalidJob, match="needs key_by.. on both"):
            numbers(env).connect(numbers(env)).process(KeyedBoth())
        with pytest.raises(InvalidJob, match="needs a KeyedCoProcessFunction or CoProcessFunction"):
            keyed.process(cast("Any", Split()))


class Both(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    process_element2 = process_element1


class KeyedBoth(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    process_element2 = process_element1


class Split(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


def test_side_outputs_travel_by_tag_inside_and_between_chains() -> None:
    env = make_env()
    tag = OutputTag("odd", Types.STRING())
    processed = numbers(env).process(Split(), Types.LONG())
    processed.print().name("main")
    side = processed.get_side_output(tag)
    side.print().name("chained")
    side.rebalance().print().name("shipped")
    job = env.build()
    program = program_of(job, 0)
    assert program.links == (ChainLink(0, 1), ChainLink(1, 2), ChainLink(1, 3, "odd"))
    assert [(o.tag, o.type_info, o.operator) for o in program.outputs] == [("odd", Types.STRING(), 1)]
