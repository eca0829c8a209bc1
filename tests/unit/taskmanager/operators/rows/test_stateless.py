"""Map, filter, flat_map, process, their errors, columns, and event time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import spec, start, values_of
from tidegate.common.row import Row
from tidegate.common.time import Duration
from tidegate.common.typeinfo import Types
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.functions.expressions import col
from tidegate.functions.interfaces import CoProcessFunction, MapFunction, ProcessFunction, RuntimeContext, TimedContext
from tidegate.functions.output_tag import OutputTag
from tidegate.functions.state import ValueStateDescriptor
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.errors import InvalidJob, SchemaMismatch, UserFunctionError
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.runtime.operator_factory import make_operator

ODD = OutputTag("odd", Types.LONG())
COLUMNS = pa.schema({"a": pa.int64(), "t": pa.timestamp("us")})


class Scaled(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.factor = int(runtime_context.get_job_parameter("factor", "10"))
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def map(self, value: Any) -> Any:
        self.seen.inc()
        return value * self.factor

    def close(self) -> None:
        self.factor = 0


def test_map_keeps_timestamps_and_opens_its_function() -> None:
    function = Scaled()
    one = start(spec("map", options={"func": function}), configuration={"pipeline.global-job-parameters": "factor:3"})
    one.feed([1, 2], [7, None])
    assert (one.out.values(), one.out.stamps()) == ([3, 6], [7, None])
    assert one.out.counts == {"seen": 2}
    one.operator.close()
    assert function.factor == 0


def test_filter_and_flat_map() -> None:
    one = start(spec("filter", options={"func": lambda v: v % 2}))
    one.feed([1, 2, 3], [1, 2, 3])
    one.feed([4])
    assert (one.out.values(), one.out.stamps()) == ([1, 3], [1, 3])
    two = start(spec("flat_map", options={"func": lambda v: None if v == 0 else range(v)}))
    two.feed([2, 0, 3], [1, 2, 3])
    assert (two.out.values(), two.out.stamps()) == ([0, 1, 0, 1, 2], [1, 1, 3, 3, 3])


def test_a_flat_map_that_multiplies_emits_in_pieces() -> None:
    one = start(spec("flat_map", options={"func": lambda v: range(3000)}))
    one.feed([1, 2, 3, 4])
    assert [len(b) for b in one.out.batches] == [6000, 6000]


class Sides(ProcessFunction):
    def process_element(self, value: Any, ctx: TimedContext) -> Iterable[Any]:
        if value % 2:
            yield ODD, value
        else:
            yield (value, ctx.timestamp(), ctx.timer_service().current_watermark())


def test_process_knows_time_and_side_outputs() -> None:
    one = start(spec("process", options={"func": Sides()}))
    one.operator.on_watermark(3)
    one.feed([1, 2], [5, 6])
    assert one.out.values() == [(2, 6, 3)]
    assert values_of(one.out.sides["odd"]) == [1]


class Tagged(CoProcessFunction):
    def process_element1(self, value: Any, ctx: TimedContext) -> Iterable[Any]:
        return [("left", value)]

    def process_element2(self, value: Any, ctx: TimedContext) -> Iterable[Any]:
        return [("right", value)]


def test_co_process_takes_two_inputs() -> None:
    one = start(spec("co_process", options={"func": Tagged()}))
    one.feed([1], index=1)
    one.feed([2], index=0)
    assert one.out.values() == [("right", 1), ("left", 2)]


def test_state_and_timers_without_keys_are_refused() -> None:
    class Stateful(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("x", Types.LONG()))

        def map(self, value: Any) -> Any:
            return value

    with pytest.raises(InvalidJob, match="'x' is kept by key.*key_by"):
        start(spec("map", options={"func": Stateful()}))

    class Timed(ProcessFunction):
        def process_element(self, value: Any, ctx: TimedContext) -> None:
            ctx.timer_service().register_event_time_timer(1)

    with pytest.raises(InvalidJob, match="timers belong to keys"):
        start(spec("process", options={"func": Timed()})).feed([1])


def test_errors_name_the_operator_and_show_the_users_frames() -> None:
    def broken(value: Any) -> Any:
        return deeper(value)

    def deeper(value: Any) -> Any:
        try:
            return {}[value]
        except KeyError as error:
            raise ValueError("no such thing") from error

    for kind in ("map", "filter", "flat_map"):
        with pytest.raises(UserFunctionError) as raised:
            start(spec(kind, "my step", options={"func": broken})).feed([1])
        assert raised.value.message == "operator 'my step': ValueError: no such thing"
        details = raised.value.details
        assert "in broken" in details
        assert "in deeper" in details
        assert "KeyError" in details
        assert "stateless.py" not in details.replace("test_stateless.py", "")


@pytest.mark.parametrize("kind", ["map", "filter", "flat_map"])
def test_errors_carry_the_record_at_which_the_function_failed(kind: str) -> None:
    def broken(value: int) -> list[int]:
        return [1 // (value - 3)]

    with pytest.raises(UserFunctionError) as raised:
        start(spec(kind, options={"func": broken})).feed([1, 2, 3, 4])
    assert raised.value.inputs == (3,)


def test_an_expression_that_fails_names_the_first_row_at_which_it_does() -> None:
    schema = pa.schema({"t": pa.string()})
    batch = ArrowBatch(
        pa.RecordBatch.from_pylist([{"t": str(n)} for n in range(40)] + [{"t": "x"}, {"t": "y"}], schema)
    )
    declared = Types.SCHEMA(pa.schema({"n": pa.int64()}))
    number = col("t").cast(pa.int64())
    selecting = start(spec("select", output_type=declared, options={"columns": [("n", number)]}))
    filtering = start(spec("filter_columns", options={"predicate": number > 1}))
    for one in (selecting, filtering):
        with pytest.raises(UserFunctionError) as raised:
            one.operator.process(batch, 0)
        assert raised.value.inputs == ({"t": "x"},)


def columns(rows: list[dict[str, Any]]) -> ArrowBatch:
    return ArrowBatch(pa.RecordBatch.from_pylist(rows, schema=COLUMNS), pa.array(range(len(rows)), pa.int64()))


def test_select_and_filter_stay_columns() -> None:
    declared = Types.SCHEMA(pa.schema({"twice": pa.int64(), "a": pa.int64()}))
    one = start(spec("select", output_type=declared, options={"columns": [("twice", col("a") * 2), ("a", col("a"))]}))
    one.operator.process(columns([{"a": 1}, {"a": None}]), 0)
    assert one.out.values() == [{"twice": 2, "a": 1}, {"twice": None, "a": None}]
    two = start(spec("filter_columns", options={"predicate": col("a") > 1}))
    two.operator.process(columns([{"a": 1}, {"a": 2}, {"a": None}, {"a": 3}]), 0)
    assert ([v["a"] for v in two.out.values()], two.out.stamps()) == ([2, 3], [1, 3])


def test_map_batches_is_held_to_its_schema() -> None:
    declared = Types.SCHEMA(pa.schema({"x": pa.int64()}))

    def run(function: Any) -> Any:
        one = start(spec("map_batches", "mb", output_type=declared, options={"func": function}))
        one.operator.process(columns([{"a": 1}, {"a": 2}]), 0)
        return one.out

    assert run(lambda b: pa.record_batch({"x": b["a"]})).stamps() == [0, 1]
    assert run(lambda b: pa.record_batch({"x": b["a"].slice(1)})).stamps() == [None]
    with pytest.raises(SchemaMismatch, match="'mb': column 'x' is int32, but int64 is declared"):
        run(lambda b: pa.record_batch({"x": b["a"].cast(pa.int32())}))
    with pytest.raises(SchemaMismatch, match="column 'x' is not in both"):
        run(lambda b: pa.record_batch({"y": b["a"]}))
    with pytest.raises(SchemaMismatch, match="returned Table"):
        run(lambda b: pa.table({"x": b["a"]}))
    with pytest.raises(UserFunctionError, match="'mb': ZeroDivisionError"):
        run(lambda b: 1 // 0)


def test_timestamps_from_a_column() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10)).with_timestamp_column("t")
    one = start(spec("timestamps_watermarks", input_types=(Types.SCHEMA(COLUMNS),), options={"strategy": strategy}))
    assert one.operator.works_on == "arrow"
    data = pa.record_batch({"a": [1, 2], "t": pa.array([5_000_000, 3_000_999], pa.timestamp("us"))})
    one.operator.process(ArrowBatch(data), 0)
    assert one.out.stamps() == [5000, 3000]
    one.timers.advance_to(one.clock.ms + 200)
    assert one.out.watermarks == [4989]
    with pytest.raises(SchemaMismatch, match="'t'.*has a null"):
        one.operator.process(columns([{"a": 1}]), 0)


def test_watermarks_are_periodic_never_go_back_and_end_with_the_last() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, old: v[0])
    kind = Types.ROW([Types.LONG()])
    one = start(spec("timestamps_watermarks", input_types=(kind,), options={"strategy": strategy}))
    one.feed([Row(20)])
    one.feed([Row(10)])
    one.timers.advance_to(199)
    assert one.out.watermarks == [], "a short input may be in disorder, however it is cut"
    one.timers.advance_to(200)
    assert one.out.watermarks == [19]
    one.clock.ms = 450
    one.feed([Row(5), Row(30), Row(7)])
    assert one.out.watermarks == [19, 29]
    one.operator.on_watermark(1000)
    one.operator.on_idle(True)
    assert (one.out.watermarks, one.out.idle) == ([19, 29], [])
    one.operator.on_watermark(END_OF_TIME)
    one.timers.advance_to(5000)
    assert one.out.watermarks == [19, 29, END_OF_TIME]
    assert one.out.stamps() == [20, 10, 5, 30, 7]


def test_a_strategy_without_watermarks_gives_none_but_the_last() -> None:
    of = spec(
        "timestamps_watermarks",
        input_types=(Types.LONG(),),
        options={"strategy": WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda v, _: v)},
    )
    one = start(of)
    one.feed([1])
    one.timers.advance_to(1000)
    assert one.out.watermarks == []
    one.operator.on_watermark(END_OF_TIME)
    assert one.out.watermarks == [END_OF_TIME]


def test_specs_that_cannot_be_built_are_refused() -> None:
    with pytest.raises(InvalidJob, match="no operator of kind 'nonsense'"):
        make_operator(spec("nonsense"))
    with pytest.raises(InvalidJob, match="missing 1 required keyword-only argument: 'func'"):
        make_operator(spec("map", options={}))
    with pytest.raises(InvalidJob, match="came with OperatorOptions instead of FunctionOptions"):
        make_operator(spec("map"))
    with pytest.raises(InvalidJob, match="no key for input 0"):
        make_operator(spec("keyed_process", options={"func": Sides()}))
    with pytest.raises(InvalidJob, match="neither callable"):
        make_operator(spec("map", options={"func": 3}))


class MetricStore(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        group = runtime_context.get_metrics_group().add_group("mine").add_group("kind", "big")
        self.counter = group.counter("seen")
        self.meter = group.meter("rate", 10)
        self.distribution = group.distribution("size")
        group.gauge("last", lambda: self.last)
        self.last = 0

    def map(self, value: Any) -> Any:
        self.counter.inc(2)
        self.counter.dec()
        self.meter.mark_event()
        self.distribution.update(value)
        self.last = value
        return value


def test_functions_register_metrics_of_every_kind() -> None:
    running = start(spec("map", options={"func": MetricStore()}))
    running.feed([3, 1, 5])
    running.clock.ms = 2000
    told = {name.removeprefix("mine.kind.big."): read() for name, read in running.out.watched.items()}
    assert running.out.counts == {"mine.kind.big.seen": 3}
    assert told == {
        "rate": 1.5,
        "last": 5,
        "size.count": 3,
        "size.sum": 9,
        "size.min": 1,
        "size.max": 5,
        "size.mean": 3,
    }


def test_the_rate_of_a_meter_is_over_its_time_span() -> None:
    running = start(spec("map", options={"func": MetricStore()}))
    rate = running.out.watched["mine.kind.big.rate"]
    for second in range(1, 31):
        running.feed([1] * (10 if second <= 15 else 2))
        running.clock.ms = 1000 * second
        rate()
    assert rate() == 2.0
