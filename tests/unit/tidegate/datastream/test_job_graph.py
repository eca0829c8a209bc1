"""From the API to the job graph: chains, edges, ids, programs, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest

from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.connectors.print_sink import PrintSink
from tidegate.datastream import (
    CoMapFunction,
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from tidegate.datastream.job_graph_builder import BuiltJob
from tidegate.model.errors import ConfigurationError, InvalidJob
from tidegate.model.graph import Partitioner
from tidegate.model.program import ChainLink, VertexProgram

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def make_env(parallelism: int = 2) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), "numbers")


def same(value: Any) -> Any:
    return value


def names(job: BuiltJob) -> list[str]:
    return [vertex.name for vertex in job.graph.vertices]


def partitioners(job: BuiltJob) -> list[Partitioner]:
    return [edge.partitioner for edge in job.graph.edges]


def program_of(job: BuiltJob, index: int) -> VertexProgram:
    return job.programs[job.graph.vertices[index].vertex_id]


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

    def test_keyed_with_not_keyed_is_refused(self) -> None:
        env = make_env()
        with pytest.raises(InvalidJob, match="two keyed streams"):
            numbers(env).key_by(same).connect(numbers(env))


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


class TestIds:
    def build(self, uid: str = "", parallelism: int = 2, name: str = "Map") -> BuiltJob:
        env = make_env(parallelism)
        mapped = numbers(env).map(same).name(name)
        if uid:
            mapped.uid(uid)
        mapped.key_by(same).reduce(min).print()
        return env.build()

    def ids(self, job: BuiltJob) -> list[str]:
        return [o.operator_id for v in job.graph.vertices for o in v.operators]

    def test_same_program_same_ids(self) -> None:
        assert self.ids(self.build()) == self.ids(self.build())

    def test_names_and_parallelism_do_not_matter(self) -> None:
        assert self.ids(self.build()) == self.ids(self.build(parallelism=3, name="renamed"))

    def test_uid_decides_and_survives_a_moved_operator(self) -> None:
        with_uid = self.ids(self.build(uid="mapper"))
        env = make_env()
        numbers(env).filter(bool).map(same).uid("mapper").print()
        assert with_uid[1] in self.ids(env.build())
        assert with_uid[1] not in self.ids(self.build())

    def test_another_kind_in_the_same_place_has_another_id(self) -> None:
        env = make_env()
        numbers(env).filter(bool).key_by(same).reduce(min).print()
        changed = self.ids(env.build())
        original = self.ids(self.build())
        assert changed[0] == original[0]
        assert changed[1] != original[1]

    def test_all_ids_differ(self) -> None:
        env = make_env()
        source = numbers(env)
        for _ in range(3):
            source.map(same).print()
        ids = self.ids(env.build())
        assert len(set(ids)) == len(ids)

    def test_vertex_has_the_id_of_its_head(self) -> None:
        for vertex in self.build().graph.vertices:
            assert str(vertex.vertex_id) == str(vertex.operators[0].operator_id)

    def test_duplicate_uid_is_refused(self) -> None:
        env = make_env()
        numbers(env).uid("x").map(same).uid("x").print()
        with pytest.raises(InvalidJob, match="uid 'x' is used twice, by 'numbers' and 'Map'"):
            env.build()


class TestPrograms:
    def test_blobs_hold_the_programs(self) -> None:
        env = make_env()
        numbers(env).map(lambda x: x * 2, Types.LONG()).print()
        job = env.build()
        loaded = cloudpickle.loads(job.blobs[job.graph.vertices[0].program])
        assert [o.kind for o in loaded.operators] == ["source", "map", "sink"]
        assert loaded.operators[1].options["func"](21) == 42

    def test_splits_are_listed_for_the_parallelism_of_the_source(self) -> None:
        env = make_env()
        numbers(env).set_parallelism(4).print()
        splits = program_of(env.build(), 0).operators[0].options["splits"]
        assert [s.split_id for s in splits] == ["1-25", "26-50", "51-75", "76-100"]

    def test_max_parallelism_explicit_or_derived(self) -> None:
        env = make_env(100)
        numbers(env).print()
        vertex = env.build().graph.vertices[0]
        assert (vertex.max_parallelism, vertex.max_parallelism_is_explicit) == (256, False)
        env.set_max_parallelism(200)
        numbers(env).print()
        vertex = env.build().graph.vertices[0]
        assert (vertex.max_parallelism, vertex.max_parallelism_is_explicit) == (200, True)

    def test_parallelism_above_the_maximum_is_refused(self) -> None:
        env = make_env().set_max_parallelism(4)
        numbers(env).map(same).set_parallelism(5).print()
        with pytest.raises(InvalidJob, match="parallelism 5 is larger than the maximum 4"):
            env.build()

    def test_sources_that_nobody_reads_are_left_out(self) -> None:
        env = make_env()
        numbers(env).name("unread")
        numbers(env).print()
        assert names(env.build()) == ["Source: numbers -> Sink: Print to Std. Out"]

    def test_a_stream_of_an_earlier_execution_may_be_read_again(self) -> None:
        env = make_env()
        mapped = numbers(env).map(same)
        mapped.print()
        env.build()
        mapped.key_by(same).reduce(min).print()
        assert names(env.build()) == ["Source: numbers -> Map", "Reduce -> Sink: Print to Std. Out"]

    def test_empty_program_is_refused(self) -> None:
        env = make_env()
        numbers(env)
        with pytest.raises(InvalidJob, match="no operators"):
            env.build()

    def test_sinks_are_validated(self) -> None:
        class Refusing(PrintSink):
            def validate(self) -> None:
                raise InvalidJob("the directory is a file")

        env = make_env()
        numbers(env).sink_to(Refusing())
        with pytest.raises(InvalidJob, match="the directory is a file"):
            env.build()

    def test_configuration_is_checked_as_a_whole(self) -> None:
        env = make_env().enable_checkpointing(500)
        numbers(env).print()
        env.get_checkpoint_config().set_checkpoint_timeout(60_000)
        graph = env.build().graph
        assert graph.configuration["execution.checkpointing.interval"] == "500 ms"
        assert graph.configuration["execution.checkpointing.timeout"] == "60000 ms"
        env._configuration.set_string("execution.checkpointing.intervall", "5 s")
        numbers(env).print()
        with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.interval"):
            env.build()


class KeyedSame(MapFunction):
    def map(self, value: Any) -> Any:
        return value


class TestRefusals:
    def test_settings_of_a_keyed_stream(self) -> None:
        with pytest.raises(InvalidJob, match="only partitioned"):
            numbers(make_env()).key_by(same).name("x")

    def test_settings_of_a_union(self) -> None:
        env = make_env()
        with pytest.raises(InvalidJob, match="a union"):
            numbers(env).union(numbers(env)).uid("x")

    def test_from_collection_is_not_parallel(self) -> None:
        stream = make_env().from_collection([1, 2], Types.LONG())
        with pytest.raises(InvalidJob, match="cannot be parallel"):
            stream.set_parallelism(2)

    @pytest.mark.parametrize("parallelism", [0, -1, 1.5, True, 40_000])
    def test_bad_parallelism(self, parallelism: Any) -> None:
        with pytest.raises(InvalidJob, match="parallelism must be a whole number"):
            numbers(make_env()).set_parallelism(parallelism)

    def test_wrong_functions(self) -> None:
        stream = numbers(make_env())
        with pytest.raises(InvalidJob, match="map needs a MapFunction or a function"):
            stream.map(5)  # type: ignore[arg-type]
        with pytest.raises(InvalidJob, match="KeyedProcessFunction goes behind key_by"):
            stream.process(KeyedProcessFunction)  # type: ignore[arg-type]
        with pytest.raises(InvalidJob, match="filter needs a FilterFunction or a function"):
            stream.filter(KeyedSame())  # type: ignore[arg-type]

    def test_what_is_not_there_says_so(self) -> None:
        env = make_env()
        with pytest.raises(AttributeError, match=r"DataStream\.window_all is not available in tidegate"):
            _ = numbers(env).window_all
        with pytest.raises(AttributeError, match=r"StreamExecutionEnvironment\.add_jars is not available"):
            _ = env.add_jars
        assert not hasattr(numbers(env), "cache")


class TestKeyedFunctions:
    def test_function_objects_behind_a_key_may_use_state(self) -> None:
        env = make_env()
        keyed = numbers(env).key_by(same)
        keyed.map(KeyedSame()).print()
        keyed.map(same).print()
        job = env.build()
        assert [program_of(job, i).operators[0].kind for i in (1, 2)] == ["keyed_process", "map"]

    def test_reduce_keeps_the_type(self) -> None:
        assert numbers(make_env()).key_by(same).reduce(min).get_type() == Types.LONG()

    def test_batch_reduce_waits_for_the_end(self) -> None:
        env = make_env()
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        numbers(env).key_by(same).reduce(min).print()
        assert program_of(env.build(), 1).operators[0].kind == "keyed_process"

    def test_automatic_mode_is_batch_for_bounded_sources_only(self) -> None:
        env = make_env()
        env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
        numbers(env).key_by(same).reduce(min).print()
        unbounded = NumberSequenceSource(1, 5)
        unbounded.bounded = False
        assert program_of(env.build(), 1).operators[0].kind == "keyed_process"
        env.from_source(unbounded, WatermarkStrategy.no_watermarks(), "endless").key_by(same).reduce(min).print()
        assert program_of(env.build(), 1).operators[0].kind == "keyed_reduce"

    def test_batch_refuses_a_source_without_end(self) -> None:
        env = make_env()
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        unbounded = NumberSequenceSource(1, 5)
        unbounded.bounded = False
        env.from_source(unbounded, WatermarkStrategy.no_watermarks(), "endless").print()
        with pytest.raises(InvalidJob, match="'endless' never ends"):
            env.build()

    @pytest.mark.parametrize(
        ("method", "expected"),
        [("sum", (1, 13)), ("min", (1, 4)), ("max", (1, 9)), ("min_by", (2, 4)), ("max_by", (1, 9))],
    )
    def test_field_aggregations(self, method: str, expected: tuple[int, int]) -> None:
        env = make_env()
        stream = env.from_collection([(1, 9)], PAIR).key_by(lambda pair: 0)
        getattr(stream, method)(1).print()
        func = program_of(env.build(), 1).operators[0].options["func"]
        assert func.reduce((1, 9), (2, 4)) == expected

    def test_field_aggregation_of_a_missing_field(self) -> None:
        stream = make_env().from_collection([(1, 9)], PAIR).key_by(lambda pair: 0)
        with pytest.raises(InvalidJob, match=r"sum\(2\): the fields are f0, f1"):
            stream.sum(2)

    def test_project(self) -> None:
        env = make_env()
        stream = env.from_collection([(1, 9)], PAIR).project(1, 0, 1)
        assert stream.get_type() == Types.TUPLE([Types.LONG()] * 3)
        stream.print()
        assert program_of(env.build(), 1).operators[0].options["func"]((1, 9)) == (9, 1, 9)
