"""From the spec of an operator to the operator. The options of each kind:

| kind                   | options                                                                                           |
|------------------------|---------------------------------------------------------------------------------------------------|
| source                 | ``source``; ``splits``: all of them, for all subtasks; ``watermark_strategy`` or ``None``         |
| map, flat_map, filter  | ``func``: a callable, or an object with the method of that name                                   |
| process, co_process    | ``func``: ProcessFunction, CoProcessFunction                                                      |
| keyed_process          | ``func``: KeyedProcessFunction; the key is ``spec.key``                                           |
| keyed_co_process       | ``func``: [Keyed]CoProcessFunction; keys are ``spec.key`` and ``spec.second_key``                 |
| broadcast_process,     | ``func``: BroadcastProcessFunction, KeyedBroadcastProcessFunction; ``states``:                    |
| keyed_broadcast_process| [MapStateDescriptor]; input 1 is the broadcast one                                                |
| async_wait             | ``func``: AsyncFunction; ``timeout_ms``, ``strategy``, ``capacity``, ``ordered``                  |
| interval_join          | ``func``: ProcessJoinFunction; ``lower_ms``, ``upper_ms``; ``late_tags``: ids or ``None``, by side |
| keyed_reduce           | ``func``: ReduceFunction or callable                                                              |
| timestamps_watermarks  | ``strategy``: WatermarkStrategy                                                                   |
| window                 | ``assigner``; ``trigger`` or ``None``; ``function``: (``reduce`` / ``aggregate`` / ``process``,   |
|                        | function[, process function]); ``evictor`` or ``None``; ``allowed_lateness_ms``;                  |
|                        | ``late_tag``: id or ``None``; ``accumulator_type`` (aggregate)                                    |
| sink                   | ``sink``                                                                                          |
| select                 | ``columns``: [(name, Expression)]                                                                 |
| filter_columns         | ``predicate``: Expression                                                                         |
| map_batches            | ``func``: RecordBatch -> RecordBatch of the output type's columns                                 |
| columnar_window_local  | ``size_ms``, ``offset_ms``, ``keys``: [column], ``aggregates``: [(name, function, column or None)] |
| columnar_window        | the same, and ``input``: ``partial`` (behind columnar_window_local) or ``raw``                    |
|                        | ``slide_ms``, if they slide; ``size_ms`` of columnar_window_local is the slide then               |
| columnar_session_local | ``gap_ms``, ``keys``, ``aggregates``                                                               |
| columnar_session       | the same, behind columnar_session_local (``input``: ``partial``)                                  |
| columnar_aggregate     | ``keys``: [column], ``aggregates``: [(name, function, column or None)]                            |
|                        | ``is_final``, if true: one result for each key, at the end of the input (BATCH)                   |

In BATCH execution mode operators with state have ``batch_inputs`` besides: an ``InputMode`` for each input.

Keys of operators on single records are taken by ``KeySpec.selector``, or from fields of these names.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.functions.windows import MergingWindowAssigner
from tidegate.model.errors import InvalidJob
from tidegate.model.program import KeySpec, OperatorSpec
from tidegate.taskmanager.operators.base import Operator
from tidegate.taskmanager.operators.batch.sorted_inputs import InputMode, SortedInputs
from tidegate.taskmanager.operators.columnar.aggregate import ColumnarAggregate, ColumnarTotals
from tidegate.taskmanager.operators.columnar.local_windows import ColumnarWindowLocal
from tidegate.taskmanager.operators.columnar.sessions import ColumnarSession, ColumnarSessionLocal
from tidegate.taskmanager.operators.columnar.stateless import FilterColumnsOperator, MapBatchesOperator, SelectOperator
from tidegate.taskmanager.operators.columnar.windows import ColumnarWindow
from tidegate.taskmanager.operators.rows.async_wait import AsyncWaitOperator
from tidegate.taskmanager.operators.rows.broadcast import BroadcastProcessOperator, KeyedBroadcastProcessOperator
from tidegate.taskmanager.operators.rows.interval_join import IntervalJoinOperator
from tidegate.taskmanager.operators.rows.keyed import KeyedProcessOperator, KeyedReduceOperator
from tidegate.taskmanager.operators.rows.stateless import FilterOperator, FlatMapOperator, MapOperator, ProcessOperator
from tidegate.taskmanager.operators.sinks.sink import SinkOperator
from tidegate.taskmanager.operators.sources.source import SourceOperator
from tidegate.taskmanager.operators.sources.watermarks import TimestampsWatermarksOperator
from tidegate.taskmanager.operators.windows.sessions import MergingWindowOperator
from tidegate.taskmanager.operators.windows.window import WindowOperator

BATCH = "batch_inputs"
_TWO = ("process_element1", "process_element2")


def make_operator(spec: OperatorSpec) -> Operator:
    """Makes an operator that is not set up yet. Raises ``InvalidJob`` for a spec that lacks what its kind needs."""
    make = _MAKERS.get(spec.kind)
    if make is None:
        raise InvalidJob(f"operator '{spec.name}': there is no operator of kind '{spec.kind}'")
    try:
        made = make(spec)
        return made if BATCH not in spec.options else _sorted(spec, made)
    except (KeyError, IndexError) as error:
        raise InvalidJob(f"operator '{spec.name}' of kind '{spec.kind}': {error} is missing in its options") from error


def _sorted(spec: OperatorSpec, inner: Operator) -> Operator:
    modes = [InputMode(mode) for mode in spec.options[BATCH]]
    return SortedInputs(spec.name, inner, modes, spec.input_types)


def _source(spec: OperatorSpec) -> Operator:
    options = spec.options
    return SourceOperator(
        spec.name, options["source"], options["splits"], options.get("watermark_strategy"), spec.output_type
    )


def _keyed_process(spec: OperatorSpec) -> Operator:
    return KeyedProcessOperator(spec.name, [key_of(spec, spec.key)], spec.options["func"], ("process_element",))


def _keyed_co_process(spec: OperatorSpec) -> Operator:
    keys = [key_of(spec, spec.key), key_of(spec, spec.second_key, 1)]
    return KeyedProcessOperator(spec.name, keys, spec.options["func"], _TWO)


def _broadcast_process(spec: OperatorSpec) -> Operator:
    return BroadcastProcessOperator(spec.name, spec.options["func"], spec.options["states"])


def _keyed_broadcast_process(spec: OperatorSpec) -> Operator:
    options = spec.options
    return KeyedBroadcastProcessOperator(spec.name, key_of(spec, spec.key), options["func"], options["states"])


def _async_wait(spec: OperatorSpec) -> Operator:
    o = spec.options
    return AsyncWaitOperator(
        spec.name,
        o["func"],
        spec.input_types[0],
        timeout_ms=o["timeout_ms"],
        strategy=o["strategy"],
        capacity=o["capacity"],
        ordered=o["ordered"],
    )


def _interval_join(spec: OperatorSpec) -> Operator:
    o, keys = spec.options, [key_of(spec, spec.key), key_of(spec, spec.second_key, 1)]
    bounds = {"lower_ms": o["lower_ms"], "upper_ms": o["upper_ms"], "late_tags": o["late_tags"]}
    return IntervalJoinOperator(spec.name, keys, o["func"], spec.input_types, **bounds)


def _keyed_reduce(spec: OperatorSpec) -> Operator:
    return KeyedReduceOperator(spec.name, [key_of(spec, spec.key)], spec.options["func"], spec.input_types[0])


def _window(spec: OperatorSpec) -> Operator:
    options = spec.options
    make = MergingWindowOperator if isinstance(options["assigner"], MergingWindowAssigner) else WindowOperator
    return make(
        spec.name,
        key_of(spec, spec.key),
        spec.input_types[0],
        assigner=options["assigner"],
        trigger=options.get("trigger"),
        function=options["function"],
        evictor=options.get("evictor"),
        allowed_lateness_ms=options.get("allowed_lateness_ms", 0),
        late_tag=options.get("late_tag"),
        accumulator_type=options.get("accumulator_type"),
    )


def _select(spec: OperatorSpec) -> Operator:
    return SelectOperator(spec.name, spec.options["columns"], spec.output_type.arrow_schema())


def _map_batches(spec: OperatorSpec) -> Operator:
    return MapBatchesOperator(spec.name, spec.options["func"], spec.output_type.arrow_schema())


def _columnar_aggregate(spec: OperatorSpec) -> Operator:
    options, schema = spec.options, spec.input_types[0].arrow_schema()
    make = ColumnarTotals if options.get("is_final") else ColumnarAggregate
    return make(spec.name, options["keys"], options["aggregates"], schema)


def _window_local(spec: OperatorSpec) -> Operator:
    o = spec.options
    return ColumnarWindowLocal(spec.name, o["size_ms"], o["offset_ms"], o["keys"], o["aggregates"])


def _columnar_window(spec: OperatorSpec) -> Operator:
    o = spec.options
    takes_partials = o["input"] == "partial"
    slide_ms = o.get("slide_ms")
    return ColumnarWindow(spec.name, o["size_ms"], o["offset_ms"], o["keys"], o["aggregates"], takes_partials, slide_ms)


def _session_local(spec: OperatorSpec) -> Operator:
    o = spec.options
    return ColumnarSessionLocal(spec.name, o["gap_ms"], o["keys"], o["aggregates"])


def key_of(spec: OperatorSpec, key: KeySpec | None, input_index: int = 0) -> KeySpec:
    """A key with a selector. Raises ``InvalidJob`` when the spec has none."""
    if key is None:
        raise InvalidJob(f"operator '{spec.name}' of kind '{spec.kind}' has no key for input {input_index}")
    if key.selector is not None:
        return key
    names = spec.input_types[input_index].arrow_schema().names
    positions = [names.index(column) for column in key.columns]
    if len(positions) == 1:
        first = positions[0]
        return KeySpec(selector=lambda record: record[first], key_type=key.key_type)
    return KeySpec(selector=lambda record: tuple(record[i] for i in positions))


_MAKERS: dict[str, Callable[[OperatorSpec], Operator]] = {
    "source": _source,
    "map": lambda spec: MapOperator(spec.name, spec.options["func"], "map"),
    "flat_map": lambda spec: FlatMapOperator(spec.name, spec.options["func"], "flat_map"),
    "filter": lambda spec: FilterOperator(spec.name, spec.options["func"], "filter"),
    "process": lambda spec: ProcessOperator(spec.name, spec.options["func"], ("process_element",)),
    "keyed_process": _keyed_process,
    "keyed_reduce": _keyed_reduce,
    "co_process": lambda spec: ProcessOperator(spec.name, spec.options["func"], _TWO),
    "keyed_co_process": _keyed_co_process,
    "interval_join": _interval_join,
    "async_wait": _async_wait,
    "broadcast_process": _broadcast_process,
    "keyed_broadcast_process": _keyed_broadcast_process,
    "window": _window,
    "timestamps_watermarks": lambda spec: TimestampsWatermarksOperator(spec.options["strategy"], spec.input_types[0]),
    "sink": lambda spec: SinkOperator(spec.name, spec.options["sink"], spec.input_types[0]),
    "select": _select,
    "filter_columns": lambda spec: FilterColumnsOperator(spec.name, spec.options["predicate"]),
    "map_batches": _map_batches,
    "columnar_window": _columnar_window,
    "columnar_window_local": _window_local,
    "columnar_session_local": _session_local,
    "columnar_session": lambda spec: ColumnarSession(spec.name, spec.options["keys"], spec.options["aggregates"]),
    "columnar_aggregate": _columnar_aggregate,
}


__all__ = ["key_of", "make_operator"]
