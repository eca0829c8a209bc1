"""Makes operators from their specs. ``tidegate.operator_options`` has the options of each kind.

Operators on single records compute keys with ``KeySpec.selector``, or from the fields that the ``KeySpec`` names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidegate.functions.windows import MergingWindowAssigner
from tidegate.model.errors import InvalidJob
from tidegate.model.program import KeySpec, OperatorOptions, OperatorSpec
from tidegate.operator_options import (
    AggregateOptions,
    AsyncBatchesOptions,
    AsyncWaitOptions,
    BroadcastOptions,
    CepOptions,
    ColumnarWindowOptions,
    EnumeratedSourceOptions,
    FilterColumnsOptions,
    FunctionOptions,
    IntervalJoinOptions,
    LocalWindowOptions,
    MapBatchesOptions,
    RelationalOptions,
    SelectOptions,
    SessionOptions,
    SinkOptions,
    SourceOptions,
    TimestampsWatermarksOptions,
    WindowOptions,
)
from tidegate.taskmanager.keyed_state.ttl import Ttl
from tidegate.taskmanager.operators.batch.sorted_inputs import InputMode, SortedInputs
from tidegate.taskmanager.operators.columns.aggregate import ColumnarAggregate, ColumnarTotals
from tidegate.taskmanager.operators.columns.async_batches import AsyncBatchesOperator
from tidegate.taskmanager.operators.columns.stateless import FilterColumnsOperator, MapBatchesOperator, SelectOperator
from tidegate.taskmanager.operators.operator import Operator
from tidegate.taskmanager.operators.relational.making import make_relational
from tidegate.taskmanager.operators.rows.async_wait import AsyncWaitOperator
from tidegate.taskmanager.operators.rows.broadcast import BroadcastProcessOperator, KeyedBroadcastProcessOperator
from tidegate.taskmanager.operators.rows.cep import CepOperator
from tidegate.taskmanager.operators.rows.interval_join import IntervalJoinOperator
from tidegate.taskmanager.operators.rows.keyed import KeyedProcessOperator, KeyedReduceOperator
from tidegate.taskmanager.operators.rows.stateless import FilterOperator, FlatMapOperator, MapOperator, ProcessOperator
from tidegate.taskmanager.operators.sinks.committer import CommitterOperator
from tidegate.taskmanager.operators.sinks.sink import SinkOperator
from tidegate.taskmanager.operators.sources.enumerated_source import EnumeratedSourceOperator
from tidegate.taskmanager.operators.sources.source import SourceOperator
from tidegate.taskmanager.operators.sources.watermarks import TimestampsWatermarksOperator
from tidegate.taskmanager.windows.columns.local import ColumnarWindowLocal
from tidegate.taskmanager.windows.columns.session import ColumnarSession, ColumnarSessionLocal
from tidegate.taskmanager.windows.columns.window import ColumnarWindow
from tidegate.taskmanager.windows.rows.sessions import MergingWindowOperator
from tidegate.taskmanager.windows.rows.window import WindowOperator
from tidegate.taskmanager.windows.state.files import PartialsFormat

Options = TypeVar("Options", bound=OperatorOptions)
_TWO = ("process_element1", "process_element2")


def make_operator(spec: OperatorSpec) -> Operator:
    """Makes an operator that is not set up yet. Raises ``InvalidJob`` for a spec that lacks what its kind needs."""
    make = _MAKERS.get(spec.kind)
    if make is None:
        raise InvalidJob(
            f"operator '{spec.name}': this version of tidegate has no operator of kind '{spec.kind}'; submit the job with the same version"
        )
    made = make(spec)
    return _sorted(spec, made) if spec.options.batch_inputs else made


def options_of(spec: OperatorSpec, kind: type[Options]) -> Options:
    """Returns the options of a spec, checked to be of a class. Raises ``InvalidJob``."""
    if not isinstance(spec.options, kind):
        raise InvalidJob(
            f"operator '{spec.name}' of kind '{spec.kind}' came with {type(spec.options).__name__} instead of {kind.__name__}; submit the job with the "
            "tidegate version of the cluster"
        )
    return spec.options


def _sorted(spec: OperatorSpec, inner: Operator) -> Operator:
    modes = [InputMode(mode) for mode in spec.options.batch_inputs]
    return SortedInputs(spec.name, inner, modes, spec.input_types)


def _source(spec: OperatorSpec) -> Operator:
    o = options_of(spec, SourceOptions)
    return SourceOperator(
        spec.name, o.source, o.splits, o.watermark_strategy, spec.output_type, is_coordinated=o.is_coordinated
    )


def _enumerated_source(spec: OperatorSpec) -> Operator:
    o = options_of(spec, EnumeratedSourceOptions)
    return EnumeratedSourceOperator(spec.name, o.source, o.enumerator, o.watermark_strategy, spec.output_type)


def _keyed_process(spec: OperatorSpec) -> Operator:
    return KeyedProcessOperator(
        spec.name, [key_of(spec, spec.key)], options_of(spec, FunctionOptions).func, ("process_element",)
    )


def _keyed_co_process(spec: OperatorSpec) -> Operator:
    keys = [key_of(spec, spec.key), key_of(spec, spec.second_key, 1)]
    return KeyedProcessOperator(spec.name, keys, options_of(spec, FunctionOptions).func, _TWO)


def _broadcast_process(spec: OperatorSpec) -> Operator:
    o = options_of(spec, BroadcastOptions)
    return BroadcastProcessOperator(spec.name, o.func, o.states)


def _keyed_broadcast_process(spec: OperatorSpec) -> Operator:
    o = options_of(spec, BroadcastOptions)
    return KeyedBroadcastProcessOperator(spec.name, key_of(spec, spec.key), o.func, o.states)


def _async_wait(spec: OperatorSpec) -> Operator:
    o = options_of(spec, AsyncWaitOptions)
    return AsyncWaitOperator(
        spec.name,
        o.func,
        spec.input_types[0],
        timeout_ms=o.timeout_ms,
        strategy=o.strategy,
        capacity=o.capacity,
        ordered=o.ordered,
    )


def _async_batches(spec: OperatorSpec) -> Operator:
    return AsyncBatchesOperator(spec.name, options_of(spec, AsyncBatchesOptions).func, spec.output_type.arrow_schema())


def _interval_join(spec: OperatorSpec) -> Operator:
    o, keys = options_of(spec, IntervalJoinOptions), [key_of(spec, spec.key), key_of(spec, spec.second_key, 1)]
    return IntervalJoinOperator(
        spec.name, keys, o.func, spec.input_types, lower_ms=o.lower_ms, upper_ms=o.upper_ms, late_tags=o.late_tags
    )


def _cep(spec: OperatorSpec) -> Operator:
    return CepOperator(spec.name, key_of(spec, spec.key), options_of(spec, CepOptions))


def _keyed_reduce(spec: OperatorSpec) -> Operator:
    return KeyedReduceOperator(
        spec.name, [key_of(spec, spec.key)], options_of(spec, FunctionOptions).func, spec.input_types[0]
    )


def _window(spec: OperatorSpec) -> Operator:
    o = options_of(spec, WindowOptions)
    make = MergingWindowOperator if isinstance(o.assigner, MergingWindowAssigner) else WindowOperator
    return make(spec.name, key_of(spec, spec.key), spec.input_types[0], o)


def _select(spec: OperatorSpec) -> Operator:
    return SelectOperator(spec.name, options_of(spec, SelectOptions).columns, spec.output_type.arrow_schema())


def _map_batches(spec: OperatorSpec) -> Operator:
    return MapBatchesOperator(spec.name, options_of(spec, MapBatchesOptions).func, spec.output_type.arrow_schema())


def _columnar_aggregate(spec: OperatorSpec) -> Operator:
    o, schema = options_of(spec, AggregateOptions), spec.input_types[0].arrow_schema()
    if o.is_final:  # at the end of the input nothing has expired, as in Flink, whose BATCH mode keeps no times
        return ColumnarTotals(spec.name, o.keys, o.aggregates, schema)
    return ColumnarAggregate(spec.name, o.keys, o.aggregates, schema, Ttl.of(o.ttl))


def windows_of(spec: OperatorSpec) -> PartialsFormat:
    """Returns the format in which an operator of windows or sessions over columns writes and reads its state."""
    return _session(spec).form if isinstance(spec.options, SessionOptions) else _columnar_window(spec).form


def _window_local(spec: OperatorSpec) -> Operator:
    o = options_of(spec, LocalWindowOptions)
    return ColumnarWindowLocal(spec.name, o.size_ms, o.offset_ms, o.keys, o.aggregates)


def _columnar_window(spec: OperatorSpec) -> ColumnarWindow:
    o = options_of(spec, ColumnarWindowOptions)
    takes_partials = o.input == "partial"
    columns = _input_columns(spec) if takes_partials else ()
    return ColumnarWindow(spec.name, o.size_ms, o.offset_ms, o.keys, o.aggregates, takes_partials, o.slide_ms, columns)


def _session_local(spec: OperatorSpec) -> Operator:
    o = options_of(spec, SessionOptions)
    return ColumnarSessionLocal(spec.name, o.gap_ms, o.keys, o.aggregates)


def _session(spec: OperatorSpec) -> ColumnarSession:
    o = options_of(spec, SessionOptions)
    return ColumnarSession(spec.name, o.keys, o.aggregates, o.gap_ms, _input_columns(spec))


def _input_columns(spec: OperatorSpec) -> Sequence[str]:
    """Returns the names of the input's columns; ``()`` if the type of the input is not known."""
    found: list[str] = spec.input_types[0].arrow_schema().names if spec.input_types else []
    return found


def key_of(spec: OperatorSpec, key: KeySpec | None, input_index: int = 0) -> KeySpec:
    """Returns the key of an input as one with a selector. Raises ``InvalidJob`` when the spec has none."""
    if key is None:
        raise InvalidJob(
            f"operator '{spec.name}' of kind '{spec.kind}' has no key for input {input_index}: put key_by before it"
        )
    if key.selector is not None:
        return key
    names = spec.input_types[input_index].arrow_schema().names
    positions = [names.index(column) for column in key.columns]
    if len(positions) == 1:
        first = positions[0]
        return KeySpec(selector=lambda record: record[first], key_type=key.key_type)
    return KeySpec(selector=lambda record: tuple(record[i] for i in positions))


def _sink(spec: OperatorSpec) -> Operator:
    options = options_of(spec, SinkOptions)
    # Programs that earlier versions pickled have no such option.
    commits_apart = getattr(options, "commits_apart", False)
    reports = spec.output_type is not None and not commits_apart
    return SinkOperator(spec.name, options.sink, spec.input_types[0], commits_apart=commits_apart, reports=reports)


_MAKERS: dict[str, Callable[[OperatorSpec], Operator]] = {
    "source": _source,
    "enumerated_source": _enumerated_source,
    "map": lambda spec: MapOperator(spec.name, options_of(spec, FunctionOptions).func, "map"),
    "flat_map": lambda spec: FlatMapOperator(spec.name, options_of(spec, FunctionOptions).func, "flat_map"),
    "filter": lambda spec: FilterOperator(spec.name, options_of(spec, FunctionOptions).func, "filter"),
    "process": lambda spec: ProcessOperator(spec.name, options_of(spec, FunctionOptions).func, ("process_element",)),
    "keyed_process": _keyed_process,
    "keyed_reduce": _keyed_reduce,
    "co_process": lambda spec: ProcessOperator(spec.name, options_of(spec, FunctionOptions).func, _TWO),
    "keyed_co_process": _keyed_co_process,
    "interval_join": _interval_join,
    "cep": _cep,
    "async_wait": _async_wait,
    "async_batches": _async_batches,
    "broadcast_process": _broadcast_process,
    "keyed_broadcast_process": _keyed_broadcast_process,
    "window": _window,
    "timestamps_watermarks": lambda spec: TimestampsWatermarksOperator(
        options_of(spec, TimestampsWatermarksOptions).strategy, spec.input_types[0]
    ),
    "sink": _sink,
    "committer": lambda spec: CommitterOperator(spec.name, options_of(spec, SinkOptions).sink),
    "select": _select,
    "filter_columns": lambda spec: FilterColumnsOperator(spec.name, options_of(spec, FilterColumnsOptions).predicate),
    "map_batches": _map_batches,
    "columnar_window": _columnar_window,
    "columnar_window_local": _window_local,
    "columnar_session_local": _session_local,
    "columnar_session": _session,
    "columnar_aggregate": _columnar_aggregate,
    "relational": lambda spec: make_relational(
        spec.name, options_of(spec, RelationalOptions), spec.output_type.arrow_schema()
    ),
}


__all__ = ["key_of", "make_operator", "options_of"]
