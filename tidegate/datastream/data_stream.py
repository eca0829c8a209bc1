"""Streams of records (PyFlink: ``pyflink.datastream.data_stream``): `DataStream`, and `KeyedStream`, whose functions have state for each key.

A stream stands for the last transformation of a program in the making; its methods add transformations. Functions of one
record work on every stream. The columnar methods (``select``, ``filter`` with an expression, ``map_batches``, ``key_by`` with
column names) need a stream with columns: one with an Arrow schema, or a record stream of a type that names its columns.

A key is found by a selector of one record, or by columns. With columns the exchange deals whole Arrow batches; functions of
one record then see the same key as a value (one column) or as a tuple (several).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn, overload

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.typeinfo import ArrowTypeInfo, TypeInformation, Types
from tidegate.datastream._graph.transformation import (
    PartitionTransformation,
    Transformation,
)
from tidegate.datastream._streams.broadcast_stream import BroadcastConnectedStream, BroadcastStream
from tidegate.datastream._streams.closeable_iterator import CloseableIterator
from tidegate.datastream._streams.connected_streams import ConnectedStreams
from tidegate.datastream._streams.interval_join import IntervalJoin
from tidegate.datastream._streams.joined_streams import CoGroupedStreams, JoinedStreams
from tidegate.datastream._streams.operator_handle import DataStreamSink
from tidegate.datastream._streams.record_methods import RecordMethods
from tidegate.datastream._streams.stream_types import TypeHint, column_key, type_of
from tidegate.datastream._streams.windowed_stream import AllWindowedStream, WindowedStream
from tidegate.datastream.aggregates import Aggregate, check_aggregates, check_running, distinct, key_fields
from tidegate.datastream.window import CountSlidingWindowAssigner, CountTumblingWindowAssigner, WindowAssigner
from tidegate.functions import adapters
from tidegate.functions import interfaces as functions
from tidegate.functions.expressions import Expression
from tidegate.functions.field_reduce import FieldReduce
from tidegate.functions.interfaces import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
)
from tidegate.functions.state import MapStateDescriptor
from tidegate.functions.state_ttl import StateTtlConfig
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import Partitioner as Partitioning
from tidegate.model.program import KeySpec, OperatorKind
from tidegate.model.values import AssignedWindow, Key, Record, UserObject

__all__ = [
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]


class DataStream(RecordMethods):
    """A stream of records of one type (PyFlink: ``DataStream``). It stands for the last operator of a program in the
    making; methods that transform it add an operator and return another stream."""

    def key_by(
        self,
        key_selector: Callable[[Record], Key] | KeySelector | str,
        *more: str | TypeInformation | None,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Records of one key go to one subtask. ``key_by(selector, key_type)`` as in PyFlink, or ``key_by("column", ...)``."""
        if isinstance(key_selector, str):
            has_dicts = isinstance(self.get_type(), ArrowTypeInfo)
            key = column_key(self._columns("key_by"), [key_selector, *more], has_dicts=has_dicts)
            return KeyedStream(self, key)
        if not callable(getattr(key_selector, "get_key", key_selector)):
            raise InvalidJob(f"key_by needs a KeySelector, a function or column names, not {key_selector!r}")
        if more:
            given, *more_left = more
            if more_left or isinstance(given, str) or not (given is None or isinstance(given, TypeInformation)):
                raise InvalidJob("key_by takes a selector and a TypeInformation, or column names")
            key_type = given
        return KeyedStream(self, KeySpec(selector=adapters.key_function(key_selector), key_type=key_type))

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Sends every record to every subtask. With descriptors of broadcast state the result is for ``connect``."""
        made = self._partitioned(Partitioning.BROADCAST)
        if broadcast_state_descriptor is None:
            return made
        return BroadcastStream(made, [broadcast_state_descriptor, *other_broadcast_state_descriptors])

    def window_all(self, window_assigner: WindowAssigner[Record, AssignedWindow]) -> AllWindowedStream:
        """Groups all records, whatever their keys, into windows, which one subtask works on."""
        return AllWindowedStream(self, window_assigner)

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Joins two streams for one operator with two inputs, which may share state."""
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        return ConnectedStreams(self, ds)

    def join(self, other_stream: DataStream) -> JoinedStreams:
        """Pairs records with equal keys in one window: ``.where(...).equal_to(...).window(...).apply(...)``."""
        return JoinedStreams(self, other_stream)

    def co_group(self, other_stream: DataStream) -> CoGroupedStreams:
        """Groups the records of both streams with equal keys in one window; the steps are those of ``join``."""
        return CoGroupedStreams(self, other_stream)

    def cache(self) -> CachedDataStream:
        """Returns the same records for later jobs of this program, which compute them again."""
        return CachedDataStream(self._env, self._values_transformation())

    def _behind(self, made: Transformation) -> DataStream:
        """Returns the plain stream of what was added."""
        return DataStream(self._env, made)

    def _keyed_by(self, key: KeySpec) -> KeyedStream:
        return KeyedStream(self, key)

    def _itself(self) -> DataStream:
        return self

    def _key(self) -> KeySpec | None:
        """Returns the key of records, if the stream is keyed."""
        return None


class KeyedStream(DataStream):
    """A stream whose records are grouped by a key (PyFlink: ``KeyedStream``). All records of one key reach one subtask,
    whose functions have state for each key. ``name``, ``uid`` and the like belong to the operators before and behind
    it."""

    def __init__(self, origin: DataStream, key: KeySpec) -> None:
        env = origin.get_execution_environment()
        made = PartitionTransformation(
            env.next_transformation_id(),
            origin.get_type(),
            input=origin._values_transformation(),
            partitioner=Partitioning.HASH,
            key=key,
        )
        super().__init__(env, made)
        self._origin = origin
        self._exchange_key = key

    def map(self, func: Callable[[Record], Record] | MapFunction, output_type: TypeHint = None) -> DataStream:
        """A MapFunction may use keyed state."""
        if not isinstance(func, MapFunction):
            return super().map(func, output_type)
        return self._keyed("keyed_process", "Map", {"func": adapters.KeyedMap(func)}, type_of(output_type))

    def flat_map(
        self, func: Callable[[Record], Iterable[Record] | None] | FlatMapFunction, output_type: TypeHint = None
    ) -> DataStream:
        """A FlatMapFunction may use keyed state."""
        if not isinstance(func, FlatMapFunction):
            return super().flat_map(func, output_type)
        return self._keyed("keyed_process", "FlatMap", {"func": adapters.KeyedFlatMap(func)}, type_of(output_type))

    def filter(self, func: Callable[[Record], bool] | FilterFunction | Expression) -> DataStream:
        """A FilterFunction may use keyed state."""
        if not isinstance(func, FilterFunction):
            return super().filter(func)
        return self._keyed("keyed_process", "Filter", {"func": adapters.KeyedFilter(func)}, self.get_type())

    def reduce(self, func: Callable[[Record, Record], Record] | ReduceFunction) -> DataStream:
        """Combines each record with the result so far of its key, and emits the new result for every record (in BATCH
        execution mode: once for each key, at the end)."""
        adapters.check_function(func, ReduceFunction, "reduce")
        return self._keyed("keyed_reduce", "Reduce", {"func": func}, self.get_type())

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """The running sum of a field; the other fields are those of the first record."""
        return self._field_reduce("sum", position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """The smallest value of a field; the other fields are those of the first record."""
        return self._field_reduce("min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """The largest value of a field; the other fields are those of the first record."""
        return self._field_reduce("max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """The first record with the smallest value of a field."""
        return self._field_reduce("min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """The first record with the largest value of a field."""
        return self._field_reduce("max_by", position_to_max_by)

    def agg(self, *aggregates: Aggregate, ttl: StateTtlConfig | None = None) -> DataStream:
        """Ours: running aggregates of columns, without windows. For each batch one row for every key in it: the key columns
        and the aggregates so far. Needs ``key_by("column", ...)`` with keys that are numbers, booleans, instants, texts or
        bytes. Rows have no timestamps.

        With ``ttl`` a key that no row has had for so long (processing time) is forgotten, and begins anew with its next row, as
        keyed state of functions does."""
        keys = list(self._exchange_key.columns)
        if not keys:
            raise InvalidJob('agg works on columns: use key_by("column", ...) before it')
        check_aggregates(aggregates)
        schema = self._columns("agg")
        check_running(aggregates, schema, keys)
        fields = [*key_fields(schema, keys), *(aggregate.output_field(schema) for aggregate in aggregates)]
        named = [(a.output_name, a.function, a.column) for a in aggregates]
        output_type = ArrowTypeInfo(distinct(fields))
        options = {"keys": keys, "aggregates": named, "ttl": ttl if ttl is not None and ttl.is_enabled() else None}
        made = self._env.add_operator(
            "columnar_aggregate", "Aggregate", options, output_type, (self._transformation,), self._exchange_key
        )
        return self._behind(made)

    def process(self, func: KeyedProcessFunction, output_type: TypeHint = None) -> DataStream:  # type: ignore[override]  # as in PyFlink
        """Applies a ``KeyedProcessFunction``, which has state and timers for each key. Raises ``InvalidJob`` for any
        other function."""
        if not isinstance(func, KeyedProcessFunction):
            raise InvalidJob(f"process behind key_by needs a KeyedProcessFunction, not {func!r}")
        return self._keyed("keyed_process", "KEYED PROCESS", {"func": func}, type_of(output_type))

    def window(self, window_assigner: WindowAssigner[Record, AssignedWindow]) -> WindowedStream:
        """Groups the records of each key into windows."""
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Windows of ``size`` records of a key, one each ``slide`` records (0: one beside the other). What never fills never
        fires."""
        if slide:
            return self.window(CountSlidingWindowAssigner(size, slide))
        return self.window(CountTumblingWindowAssigner(size))

    def partition_custom(
        self,
        partitioner: Callable[[Key, int], int] | functions.Partitioner,
        key_selector: Callable[[Record], Key] | functions.KeySelector,
    ) -> DataStream:
        raise InvalidJob("Cannot override partitioning for KeyedStream.")

    def interval_join(self, other_stream: KeyedStream) -> IntervalJoin:
        """Pairs of records with equal keys and times near each other: ``.between(lower, upper).process(...)``."""
        return IntervalJoin(self, other_stream)

    def key_by(
        self,
        key_selector: Callable[[Record], Key] | functions.KeySelector | str,
        *more: str | TypeInformation | None,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        return self._origin.key_by(key_selector, *more, key_type=key_type)

    def _collected(
        self, stream: Transformation, type_info: TypeInformation, job_name: str | None, limit: int | None
    ) -> CloseableIterator | list[Record]:
        """As PyFlink gives them: rows of the key (``f0``) and the record (``f1``)."""
        name, func = "_stream_key_by_map_operator", adapters.KeyAndRecord(self.record_key().selector)
        pairs = self._env.add_operator(
            "map", name, {"func": func}, Types.PICKLED_BYTE_ARRAY(), (self.before_exchange(),)
        )
        pairs.follows_input = True
        return super()._collected(pairs, Types.PICKLED_BYTE_ARRAY(), job_name, limit)

    def _partitioned(self, partitioner: Partitioning, shown_as: str = "") -> DataStream:
        raise InvalidJob(
            f"{(shown_as or partitioner.value).lower()}: the records of a keyed stream go where their keys belong; "
            "redistribute them before key_by, or behind an operator"
        )

    # --- inside ----------------------------------------------------------------------------------

    def _values_transformation(self) -> Transformation:
        """An operator that does not care for keys reads the records where their keys belong: a sink has all of one key in one
        subtask, in their order. Follows ``KeyedStream._values`` of PyFlink."""
        return self._transformation

    def before_exchange(self) -> Transformation:
        """The records where they are made, for what works on them before they go where their keys belong."""
        return self._origin._values_transformation()

    def record_key(self) -> KeySpec:
        """The key for operators on single records: always by selector."""
        key = self._exchange_key
        if not key.columns:
            return key
        return KeySpec(selector=adapters.field_key(self.get_type(), key.columns), key_type=key.key_type)

    def _key(self) -> KeySpec:
        return self.record_key()

    def exchange_key(self) -> KeySpec:
        """Returns the key by which records are dealt to subtasks."""
        return self._exchange_key

    def _transform(
        self, kind: OperatorKind, name: str, options: dict[str, UserObject], output_type: TypeInformation
    ) -> DataStream:
        return self._keyed(kind, name, options, output_type)

    def _keyed(
        self,
        kind: OperatorKind,
        name: str,
        options: dict[str, UserObject],
        output_type: TypeInformation,
    ) -> DataStream:
        """An operator behind the exchange by key."""
        made = self._env.add_operator(kind, name, options, output_type, (self._transformation,), self.record_key())
        return self._behind(made)

    def _field_reduce(self, function: str, position: int | str) -> DataStream:
        return self.reduce(FieldReduce.on(function, position, self.get_type())).name(function.capitalize())


class CachedDataStream(DataStream):
    """The records of the stream that was cached, in this job and in later ones of the same program. Flink promises no more: it
    computes a lost cache again. Here every job computes them, so what takes long is better written with a FileSink."""

    def invalidate(self) -> None:
        """Nothing is kept, so nothing is released."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        """Raises ``InvalidJob``: settings belong to the operator before ``cache()``."""
        raise InvalidJob("a cached stream has no operator of its own: change or read its settings before cache()")

    name = uid = set_uid_hash = set_parallelism = set_max_parallelism = force_non_parallel = get_name = _refuse
    set_buffer_timeout = start_new_chain = disable_chaining = slot_sharing_group = set_description = _refuse


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.datastream", "AllWindowedStream CachedDataStream ConnectedStreams KeyedStream WindowedStream"),
    elsewhere(
        "tidegate.functions.interfaces",
        "AggregateFunction AllWindowFunction BroadcastProcessFunction CoFlatMapFunction CoMapFunction CoProcessFunction Function KeyedBroadcastProcessFunction KeyedCoProcessFunction KeyedProcessFunction Partitioner ProcessFunction ProcessAllWindowFunction ProcessWindowFunction ReduceFunction RuntimeContext SinkFunction WindowFunction",
    ),
    elsewhere(
        "tidegate.functions.state",
        "AggregatingStateDescriptor ListStateDescriptor ReducingState ReducingStateDescriptor StateDescriptor",
    ),
    elsewhere(
        "tidegate.functions.windows",
        "CountSlidingWindowAssigner CountTumblingWindowAssigner CountWindowSerializer GlobalWindowSerializer MergingWindowAssigner TimeWindowSerializer Trigger WindowAssigner",
    ),
    elsewhere("tidegate.common", "ExecutionConfig Row TimestampAssigner WatermarkStrategy"),
    elsewhere("tidegate.connectors.base", "Sink"),
    elsewhere("tidegate.functions.output_tag", "OutputTag"),
    elsewhere("tidegate.common.typeinfo", "RowTypeInfo"),
    elsewhere("tidegate.datastream.slot_sharing_group", "SlotSharingGroup"),
)
