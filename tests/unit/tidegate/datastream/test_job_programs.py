"""From the API to the job graph: ids, programs, and what is refused."""

from __future__ import annotations

from typing import Any

import cloudpickle
import pytest

from tests.unit.tidegate.datastream.graph_kit import PAIR, make_env, names, numbers, program_of, same
from tests.unit.tidegate.datastream.options_kit import given
from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.connectors.print_sink import PrintSink
from tidegate.datastream import KeyedProcessFunction, MapFunction, RuntimeExecutionMode
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.model.errors import ConfigurationError, InvalidJob


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
        assert given(loaded.operators[1])["func"](21) == 42

    def test_splits_are_listed_for_the_parallelism_of_the_source(self) -> None:
        env = make_env()
        numbers(env).set_parallelism(4).print()
        splits = given(program_of(env.build(), 0).operators[0])["splits"]
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
        with pytest.raises(InvalidJob, match="KeyedProcessFunction needs key_by before it"):
            stream.process(KeyedProcessFunction)  # type: ignore[arg-type]
        with pytest.raises(InvalidJob, match="filter needs a FilterFunction or a function"):
            stream.filter(KeyedSame())  # type: ignore[arg-type]

    def test_what_is_not_there_says_so(self) -> None:
        env = make_env()
        with pytest.raises(AttributeError, match=r"DataStream\.rescale_all is not available in tidegate"):
            _ = numbers(env).rescale_all
        with pytest.raises(AttributeError, match=r"StreamExecutionEnvironment\.from_table is not available"):
            _ = env.from_table
        with pytest.raises(AttributeError, match=r"not available in tidegate: .*NumberSequenceSource.*from_collection"):
            _ = env.from_sequence
        assert not hasattr(numbers(env), "rescale_all")


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
        func = given(program_of(env.build(), 1).operators[0])["func"]
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
        assert given(program_of(env.build(), 1).operators[0])["func"]((1, 9)) == (9, 1, 9)
