"""Our tables in Flink's planner: a module implemented in Python whose factory is called for every ``CREATE TABLE``, whatever its connector.

The planner learns what a connector supports (changes, keys, projections); no row is read or written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.model.errors import TidegateError
from tidegate.table._connectors.lookup_options import is_asynchronous
from tidegate.table._connectors.registry import (
    CONNECTORS,
    ROWTIME,
    STREAM,
    check_table,
    is_bounded,
    readable_metadata,
    writable_metadata,
)
from tidegate.table._connectors.shape import TableShape
from tidegate.table._connectors.streams import ROWTIME_UTC

if TYPE_CHECKING:
    from tidegate.table._planner.planner import Planner

_CONNECTOR = "org.apache.flink.table.connector"


class _JavaObject:
    """The base of Python objects that Java calls: ``equals``, ``hashCode`` and ``toString``."""

    def toString(self) -> str:
        return type(self).__name__

    def hashCode(self) -> int:
        return id(self) % 2**31

    def equals(self, other: object) -> bool:
        return self is other


class Functions(Protocol):
    """Functions that the planner finds by name in our module."""

    def names(self) -> Sequence[str]:
        """Returns the names of all functions."""

    def definition(self, name: str, planner: Planner) -> Any:
        """Returns Flink's definition of a function; ``None`` when there is no function with this name."""


class NoFunctions:
    """A module without functions."""

    def names(self) -> Sequence[str]:
        return ()

    def definition(self, name: str, planner: Planner) -> Any:
        return None


def make_module(planner: Planner, functions: Functions) -> object:
    """Makes the module to pass to ``loadModule``."""
    return _Module(planner, functions)


class _Module(_JavaObject):
    def __init__(self, planner: Planner, functions: Functions) -> None:
        self._planner = planner
        self._functions = functions
        self._factory = _Factory(planner)

    def listFunctions(self, includes_hidden: bool = False) -> Any:
        names = self._planner.jvm.java.util.HashSet()
        for name in self._functions.names() if includes_hidden else ():
            names.add(name)
        return names

    def getFunctionDefinition(self, name: str) -> Any:
        optional = self._planner.jvm.java.util.Optional
        return optional.ofNullable(self._functions.definition(str(name), self._planner))

    def getTableSourceFactory(self) -> Any:
        return self._planner.jvm.java.util.Optional.of(self._factory)

    def getTableSinkFactory(self) -> Any:
        return self._planner.jvm.java.util.Optional.of(self._factory)

    class Java:
        implements = ("org.apache.flink.table.module.Module",)


class _Factory(_JavaObject):
    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    def factoryIdentifier(self) -> str:
        return "tidegate"

    def requiredOptions(self) -> Any:
        return self._planner.jvm.java.util.HashSet()

    def optionalOptions(self) -> Any:
        return self._planner.jvm.java.util.HashSet()

    def createDynamicTableSource(self, context: Any) -> object:
        changes = self._checked(context, is_source=True)
        options = _options(context)
        if options["connector"] == STREAM:
            return _StreamSource(self._planner, changes, True)
        metadata = readable_metadata(options)
        if not CONNECTORS[options["connector"]].is_scanned:
            return _LookupSource(self._planner, is_asynchronous(options))
        if CONNECTORS[options["connector"]].is_looked_up:
            return _LookedUpFiles(self._planner, changes, is_bounded(options), metadata)
        if metadata:
            return _MetadataSource(self._planner, changes, is_bounded(options), metadata)
        return _Source(self._planner, changes, is_bounded(options))

    def createDynamicTableSink(self, context: Any) -> object:
        changes = self._checked(context, is_source=False)
        metadata = writable_metadata(_options(context))
        if metadata:
            return _MetadataSink(self._planner, changes, metadata)
        if _options(context)["connector"] == "filesystem":
            return _FileSink(self._planner, changes)
        return _Sink(self._planner, changes)

    def _checked(self, context: Any, *, is_source: bool) -> str:
        try:
            return check_table(_shape(context), _options(context), is_source=is_source)
        except TidegateError as error:
            raise self._planner_refusal(error.message) from None

    def _planner_refusal(self, message: str) -> Exception:
        from py4j.protocol import Py4JJavaError

        exception = self._planner.api.ValidationException(message)
        return Py4JJavaError(message, exception)  # type: ignore[no-any-return]

    class Java:
        implements = (
            "org.apache.flink.table.factories.DynamicTableSourceFactory",
            "org.apache.flink.table.factories.DynamicTableSinkFactory",
        )


class _Source(_JavaObject):
    """A table as the planner sees it. ``changes``: the changelog mode, as in the registry's ``Connector``."""

    def __init__(self, planner: Planner, changes: str, is_bounded: bool) -> None:
        self._planner = planner
        self._changes = changes
        self._is_bounded = is_bounded

    def getChangelogMode(self) -> Any:
        return _mode(self._planner, self._changes)

    def getScanRuntimeProvider(self, context: Any) -> object:
        return _Provider(self._planner, self._is_bounded)

    def copy(self) -> object:
        return type(self)(self._planner, self._changes, self._is_bounded)

    def asSummaryString(self) -> str:
        return "tidegate"

    def applyProjection(self, projected: Any, *unused: object) -> None:
        """Accepts the projection; the plan says which columns are read."""

    def supportsNestedProjection(self) -> bool:
        return False

    class Java:
        implements = (
            f"{_CONNECTOR}.source.ScanTableSource",
            f"{_CONNECTOR}.source.abilities.SupportsProjectionPushDown",
        )


class _MetadataSource(_Source):
    """A table with readable metadata columns. ``metadata``: SQL types by key."""

    def __init__(self, planner: Planner, changes: str, is_bounded: bool, metadata: Mapping[str, str]) -> None:
        super().__init__(planner, changes, is_bounded)
        self._metadata = metadata

    def copy(self) -> object:
        return type(self)(self._planner, self._changes, self._is_bounded, self._metadata)

    def listReadableMetadata(self) -> Any:
        return _types(self._planner, self._metadata)

    def applyReadableMetadata(self, keys: Any, produced: Any) -> None:
        """Accepts the metadata columns; the plan says which are read."""

    def supportsMetadataProjection(self) -> bool:
        return False

    class Java:
        implements = (
            f"{_CONNECTOR}.source.ScanTableSource",
            f"{_CONNECTOR}.source.abilities.SupportsProjectionPushDown",
            f"{_CONNECTOR}.source.abilities.SupportsReadingMetadata",
        )


class _LookedUpFiles(_MetadataSource):
    """A file table, which can be scanned and looked up."""

    def getLookupRuntimeProvider(self, context: Any) -> Any:
        return _lookups(self._planner, is_asynchronous=False)

    class Java:
        implements = (
            f"{_CONNECTOR}.source.ScanTableSource",
            f"{_CONNECTOR}.source.LookupTableSource",
            f"{_CONNECTOR}.source.abilities.SupportsProjectionPushDown",
            f"{_CONNECTOR}.source.abilities.SupportsReadingMetadata",
        )


class _LookupSource(_JavaObject):
    """A table that can only be looked up."""

    def __init__(self, planner: Planner, is_asynchronous: bool) -> None:
        self._planner = planner
        self._is_asynchronous = is_asynchronous

    def getLookupRuntimeProvider(self, context: Any) -> Any:
        return _lookups(self._planner, is_asynchronous=self._is_asynchronous)

    def copy(self) -> object:
        return type(self)(self._planner, self._is_asynchronous)

    def asSummaryString(self) -> str:
        return "tidegate"

    def applyProjection(self, projected: Any, *unused: object) -> None:
        """Accepts the projection; the plan says which columns are read."""

    def supportsNestedProjection(self) -> bool:
        return False

    class Java:
        implements = (
            f"{_CONNECTOR}.source.LookupTableSource",
            f"{_CONNECTOR}.source.abilities.SupportsProjectionPushDown",
        )


class _StreamSource(_Source):
    """A stream of the program as a table: record timestamps are metadata, and its watermarks are kept."""

    def listReadableMetadata(self) -> Any:
        types = self._planner.api.DataTypes
        found = self._planner.jvm.java.util.HashMap()
        found.put(ROWTIME, types.TIMESTAMP_LTZ(3).notNull())
        found.put(ROWTIME_UTC, types.TIMESTAMP(3).notNull())
        return found

    def applyReadableMetadata(self, keys: Any, produced: Any) -> None:
        """Accepts the metadata columns; the plan says which are read."""

    def supportsMetadataProjection(self) -> bool:
        return False

    def applySourceWatermark(self) -> None:
        """Accepts SOURCE_WATERMARK(): the stream's watermarks pass through."""

    class Java:
        implements = (
            f"{_CONNECTOR}.source.ScanTableSource",
            f"{_CONNECTOR}.source.abilities.SupportsReadingMetadata",
            f"{_CONNECTOR}.source.abilities.SupportsSourceWatermark",
        )


class _Provider(_JavaObject):
    """Tells the planner whether a table is bounded, which batch mode requires, and gives it a dummy source, since EXPLAIN builds Flink's operators."""

    def __init__(self, planner: Planner, is_bounded: bool) -> None:
        self._planner = planner
        self._is_bounded = is_bounded

    def isBounded(self) -> bool:
        return self._is_bounded

    def getParallelism(self) -> Any:
        return self._planner.jvm.java.util.Optional.empty()

    def produceDataStream(self, context: Any, environment: Any) -> Any:
        flink = self._planner.jvm.org.apache.flink.api
        source = flink.connector.source.lib.NumberSequenceSource(0, 0)
        return environment.fromSource(source, flink.common.eventtime.WatermarkStrategy.noWatermarks(), "tidegate")

    class Java:
        implements = (f"{_CONNECTOR}.source.DataStreamScanProvider",)


class _Sink(_JavaObject):
    """A sink as the planner sees it. ``changes``: the changelog mode, as in the registry's ``Connector``."""

    def __init__(self, planner: Planner, changes: str) -> None:
        self._planner = planner
        self._changes = changes

    def getChangelogMode(self, requested: Any) -> Any:
        return requested if self._changes == "any" else _mode(self._planner, self._changes)

    def getSinkRuntimeProvider(self, context: Any) -> Any:
        """Returns a dummy sink, since EXPLAIN builds Flink's operators."""
        sink = self._planner.jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
        return self._planner.jvm.org.apache.flink.table.connector.sink.SinkV2Provider.of(sink)

    def copy(self) -> object:
        return type(self)(self._planner, self._changes)

    def asSummaryString(self) -> str:
        return "tidegate"

    class Java:
        implements = (f"{_CONNECTOR}.sink.DynamicTableSink",)


class _FileSink(_Sink):
    """A file table as a sink, which may be partitioned and overwritten."""

    def applyStaticPartition(self, partition: Any) -> None:
        """Accepts static partition values; the plan has them as columns."""

    def requiresPartitionGrouping(self, supports_grouping: bool) -> bool:
        return False

    def applyOverwrite(self, overwrite: bool) -> None:
        """Accepts INSERT OVERWRITE; the plan says so."""

    class Java:
        implements = (
            f"{_CONNECTOR}.sink.DynamicTableSink",
            f"{_CONNECTOR}.sink.abilities.SupportsPartitioning",
            f"{_CONNECTOR}.sink.abilities.SupportsOverwrite",
        )


class _MetadataSink(_Sink):
    """A sink with writable metadata columns. ``metadata``: SQL types by key."""

    def __init__(self, planner: Planner, changes: str, metadata: Mapping[str, str]) -> None:
        super().__init__(planner, changes)
        self._metadata = metadata

    def copy(self) -> object:
        return type(self)(self._planner, self._changes, self._metadata)

    def listWritableMetadata(self) -> Any:
        return _types(self._planner, self._metadata)

    def applyWritableMetadata(self, keys: Any, consumed: Any) -> None:
        """Accepts the metadata columns; the plan says which are written."""

    class Java:
        implements = (
            f"{_CONNECTOR}.sink.DynamicTableSink",
            f"{_CONNECTOR}.sink.abilities.SupportsWritingMetadata",
        )


def _shape(context: Any) -> TableShape:
    table = context.getCatalogTable()
    schema = table.getResolvedSchema()
    columns = tuple(str(column.getName()) for column in schema.getColumns() if column.isPhysical())
    key = schema.getPrimaryKey()
    names = tuple(map(str, key.get().getColumns())) if key.isPresent() else ()
    name = str(context.getObjectIdentifier().asSummaryString())
    return TableShape(name, columns, names, tuple(map(str, table.getPartitionKeys())))


def _types(planner: Planner, metadata: Mapping[str, str]) -> Any:
    """Converts SQL types by key to a Java map of data types, in the same order."""
    types = planner.jvm.org.apache.flink.table.types
    loader = planner.jvm.Thread.currentThread().getContextClassLoader()
    found = planner.jvm.java.util.LinkedHashMap()
    for key, text in metadata.items():
        logical = types.logical.utils.LogicalTypeParser.parse(text, loader)
        found.put(key, types.utils.TypeConversions.fromLogicalToDataType(logical))
    return found


def _options(context: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in dict(context.getCatalogTable().getOptions()).items()}


def _lookups(planner: Planner, *, is_asynchronous: bool) -> Any:
    """Returns a provider of a lookup function that is never called; without one the planner takes a table for one without lookups."""
    table = planner.jvm.org.apache.flink.table
    lookup = table.connector.source.lookup
    cache = lookup.cache.DefaultLookupCache.newBuilder().maximumSize(1).build()
    functions = table.runtime.functions.table.lookup
    if is_asynchronous:
        return lookup.AsyncLookupFunctionProvider.of(functions.CachingAsyncLookupFunction(cache, None))
    return lookup.LookupFunctionProvider.of(functions.CachingLookupFunction(cache, None))


def _mode(planner: Planner, changes: str) -> Any:
    modes = planner.jvm.org.apache.flink.table.connector.ChangelogMode
    if changes in ("append", "upsert", "all"):
        return {"append": modes.insertOnly, "upsert": modes.upsert, "all": modes.all}[changes]()
    mode, kinds = modes.newBuilder(), planner.jvm.org.apache.flink.types.RowKind
    if changes == "upsert-whole":
        mode.addContainedKind(kinds.INSERT)
    return mode.addContainedKind(kinds.UPDATE_AFTER).addContainedKind(kinds.DELETE).build()
