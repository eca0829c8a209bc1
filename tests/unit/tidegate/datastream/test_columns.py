"""Columnar streams: select, filter, map_batches, keys by column, window aggregates; all checked while the graph is built."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.tidegate.datastream.options_kit import given
from tidegate.common import Duration, Row, Time, Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import DataStream, OutputTag, StreamExecutionEnvironment, col
from tidegate.datastream.aggregates import avg, count, max, min, sum
from tidegate.datastream.window import ProcessingTimeSessionWindows, TumblingEventTimeWindows
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.graph import Partitioner

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.int32()), ("f", pa.float32())])


def rows(first: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"t": first, "k": "a", "x": 1, "f": 0.5}] * count, schema=SCHEMA)


def stream(env: StreamExecutionEnvironment | None = None) -> DataStream:
    env = env or StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_column("t")
    return env.from_source(DataGeneratorSource(rows, 100), strategy, "rows")


def columns(ds: DataStream) -> dict[str, str]:
    return {field.name: str(field.type) for field in ds.get_type().arrow_schema()}


def test_select_knows_its_schema() -> None:
    selected = stream().select("k", (col("x") + 1).alias("y"), z=col("f") * 2)
    assert columns(selected) == {"k": "string", "y": "int64", "z": "float"}
    assert selected.get_type().is_columnar


def test_select_of_unknown_or_repeated_columns() -> None:
    with pytest.raises(SchemaMismatch, match="no column 'nope'"):
        stream().select("nope")
    with pytest.raises(InvalidJob, match="column names must differ"):
        stream().select("k", "k")


def test_filter_needs_a_condition() -> None:
    with pytest.raises(SchemaMismatch, match="filter needs a boolean expression"):
        stream().filter(col("x") + 1)


def test_columns_work_on_typed_records_and_not_on_pickled_ones() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    typed = env.from_collection([Row(a=1)], Types.ROW_NAMED(["a"], [Types.LONG()]))
    assert columns(typed.select(b=col("a") * 2)) == {"b": "int64"}
    with pytest.raises(InvalidJob, match="give the operator before it an output_type"):
        env.from_collection([Row(a=1)]).select("a")


def test_map_batches_has_the_schema_given() -> None:
    assert columns(stream().map_batches(lambda batch: batch.select(["k"]), pa.schema([("k", pa.string())]))) == {
        "k": "string"
    }


def test_timestamp_column_must_be_there_and_be_a_time() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with pytest.raises(SchemaMismatch, match="no timestamp column 'nope': the stream has t, k, x, f"):
        stream().assign_timestamps_and_watermarks(strategy.with_timestamp_column("nope"))
    with pytest.raises(SchemaMismatch, match="timestamp column 'k' is of type string"):
        stream().assign_timestamps_and_watermarks(strategy.with_timestamp_column("k"))


def test_timestamp_column_of_a_record_stream_becomes_an_assigner() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    records = env.from_collection([(5, 7)], Types.TUPLE([Types.LONG(), Types.LONG()]))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("f1")
    records.assign_timestamps_and_watermarks(strategy).print()
    program = next(p for p in env.build().programs.values() if len(p.operators) > 1)
    bound = given(program.operators[1])["strategy"]
    assert bound.timestamp_column is None
    assert bound.timestamp_assigner.extract_timestamp((5, 7), -1) == 7


class TestKeys:
    def test_by_columns(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
        stream(env).key_by("k", "x").reduce(lambda a, b: a).print()
        programs = list(env.build().programs.values())
        exchange, operator = programs[0].outputs[0].key, programs[1].operators[0].key
        assert exchange is not None
        assert operator is not None
        assert exchange.columns == ("k", "x")
        assert operator.selector(Row(t=0, k="a", x=3, f=0.1)) == ("a", 3)

    def test_one_column_is_a_value_not_a_tuple(self) -> None:
        key = stream().key_by("k").record_key()
        assert key.selector(Row(t=0, k="a", x=3, f=0.1)) == "a"

    @pytest.mark.parametrize(
        ("column", "kept_as"), [("x", Types.LONG()), ("t", Types.LONG()), ("k", Types.STRING()), ("f", None)]
    )
    def test_state_keeps_the_key_as_what_the_column_holds(self, column: str, kept_as: object) -> None:
        assert stream().key_by(column).record_key().key_type == kept_as
        assert stream().key_by(column, "t" if column != "t" else "x").record_key().key_type is None

    def test_unknown_column(self) -> None:
        with pytest.raises(SchemaMismatch, match="key_by: no column 'nope': the stream has t, k, x, f"):
            stream().key_by("nope")

    def test_a_column_of_plain_values_is_the_value(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        assert env.from_collection([1], Types.LONG()).key_by("value").record_key().selector(5) == 5


class TestRunningAggregates:
    def test_one_operator_behind_the_exchange_by_columns(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
        made = stream(env).key_by("k").agg(count(), avg("x").alias("mean"))
        assert columns(made) == {"k": "string", "count": "int64", "mean": "double"}
        made.print()
        job = env.build()
        assert [e.partitioner for e in job.graph.edges] == [Partitioner.HASH]
        sender, receiver = job.programs.values()
        assert sender.outputs[0].key is not None
        assert sender.outputs[0].key.columns == ("k",)
        assert receiver.operators[0].kind == "columnar_aggregate"
        assert given(receiver.operators[0]) == {
            "keys": ["k"],
            "aggregates": [("count", "count", None), ("mean", "avg", "x")],
        }

    def test_what_cannot_be_is_refused(self) -> None:
        with pytest.raises(InvalidJob, match="agg works on columns"):
            stream().key_by(lambda row: row.k).agg(count())
        with pytest.raises(InvalidJob, match="at least one aggregate"):
            stream().key_by("k").agg()
        with pytest.raises(InvalidJob, match="the column 'k' twice"):
            stream().key_by("k").agg(count().alias("k"))


class TestWindowAggregates:
    def window(self, env: StreamExecutionEnvironment | None = None) -> DataStream:
        windowed = stream(env).key_by("k").window(TumblingEventTimeWindows.of(Time.minutes(1), Time.seconds(5)))
        return windowed.agg(count(), sum("x"), min("t"), max("f").alias("top"), avg("x"))

    def test_output_schema(self) -> None:
        assert columns(self.window()) == {
            "window_start": "int64",
            "window_end": "int64",
            "k": "string",
            "count": "int64",
            "sum_x": "int64",
            "min_t": "int64",
            "top": "float",
            "avg_x": "double",
        }

    def test_aggregates_before_the_exchange_in_the_producers_chain(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
        self.window(env).print()
        job = env.build()
        assert [v.name for v in job.graph.vertices] == [
            "Source: rows -> LocalWindowAggregate",
            "GlobalWindowAggregate -> Sink: Print to Std. Out",
        ]
        assert [e.partitioner for e in job.graph.edges] == [Partitioner.HASH]
        sender, receiver = job.programs.values()
        assert sender.outputs[0].key is not None
        assert sender.outputs[0].key.columns == ("k",)
        assert sender.outputs[0].type_info.arrow_schema().names == [
            "window_start",
            "k",
            "count",
            "sum_x",
            "min_t",
            "top",
            "avg_x__sum",
            "avg_x__count",
        ]
        local, final = sender.operators[1], receiver.operators[0]
        expected = {
            "size_ms": 60_000,
            "offset_ms": 5_000,
            "keys": ["k"],
            "aggregates": [
                ("count", "count", None),
                ("sum_x", "sum", "x"),
                ("min_t", "min", "t"),
                ("top", "max", "f"),
                ("avg_x", "avg", "x"),
            ],
        }
        assert (local.kind, final.kind) == ("columnar_window_local", "columnar_window")
        assert given(local) == expected
        assert given(final) == {**expected, "input": "partial", "slide_ms": 60_000}
        assert final.input_types == (sender.outputs[0].type_info,)

    def test_local_half_follows_a_producer_of_other_parallelism(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
        keyed = stream(env).set_parallelism(1).key_by("k")
        keyed.window(TumblingEventTimeWindows.of(Time.minutes(1))).agg(count()).print()
        assert [(v.name, v.parallelism) for v in env.build().graph.vertices] == [
            ("Source: rows -> LocalWindowAggregate", 1),
            ("GlobalWindowAggregate -> Sink: Print to Std. Out", 2),
        ]

    def test_refusals(self) -> None:
        windows = TumblingEventTimeWindows.of(Time.minutes(1))
        keyed = stream().key_by("k")
        with pytest.raises(InvalidJob, match="at least one aggregate"):
            keyed.window(windows).agg()
        with pytest.raises(SchemaMismatch, match=r"no column 'nope' for sum\('nope'\)"):
            keyed.window(windows).agg(sum("nope"))
        with pytest.raises(SchemaMismatch, match=r"sum\('k'\): the column is of type string"):
            keyed.window(windows).agg(sum("k"))
        with pytest.raises(InvalidJob, match="the column 'n' twice"):
            keyed.window(windows).agg(count().alias("n"), sum("x").alias("n"))
        with pytest.raises(InvalidJob, match=r'use key_by\("column", \.\.\.\)'):
            stream().key_by(lambda row: row.k).window(windows).agg(count())
        with pytest.raises(InvalidJob, match="agg works on TumblingEventTimeWindows"):
            keyed.window(ProcessingTimeSessionWindows.with_gap(Time.minutes(2))).agg(count())
        with pytest.raises(
            InvalidJob, match="does not support a trigger, an evictor, allowed lateness or a side output"
        ):
            keyed.window(windows).side_output_late_data(OutputTag("late")).agg(count())
        with pytest.raises(InvalidJob, match="compute it in a select before the window"):
            sum(col("x") + 1)
