"""Our tables in Flink's planner: a module, implemented in Python, whose factory is asked for every ``CREATE TABLE``, whatever its connector.

The planner learns what a connector can do (changes, keys, projections); nothing here reads or writes a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.model.errors import TidegateError
from tidegate.table._connectors.registry import STREAM, STREAM_SINK, check_table, is_bounded
from tidegate.table._connectors.streams import ROWTIME, ROWTIME_UTC

if TYPE_CHECKING:
    from tidegate.table._planner.session import Planner

_CONNECTOR = "org.apache.flink.table.connector"


class _JavaObject:
    """What Java asks of every object."""

    def toString(self) -> str:
        return type(self).__name__

    def hashCode(self) -> int:
        return id(self) % 2**31

    def equals(self, other: object) -> bool:
        return self is other


class Functions(Protocol):
    """Functions that the planner finds by names of ours."""

    def names(self) -> Sequence[str]:
        """All of them."""

    def definition(self, name: str, planner: Planner) -> Any:
        """Flink's definition of the function with a name; ``None``: there is none."""


class NoFunctions:
    """There are none."""

    def names(self) -> Sequence[str]:
        """None."""
        return ()

    def definition(self, name: str, planner: Planner) -> Any:
        """``None``."""
        return None


def make_module(planner: Planner, functions: Functions) -> object:
    """For ``loadModule``."""
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
        if _options(context)["connector"] == STREAM:
            return _StreamSource(self._planner, changes, True)
        return _Source(self._planner, changes, is_bounded(_options(context)))

    def createDynamicTableSink(self, context: Any) -> object:
        changes = self._checked(context, is_source=False)
        kind = _StreamSink if _options(context)["connector"] == STREAM_SINK else _Sink
        return kind(self._planner, changes)

    def _checked(self, context: Any, *, is_source: bool) -> str:
        options = _options(context)
        name = str(context.getObjectIdentifier().asSummaryString())
        try:
            return check_table(name, options, is_source=is_source)
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
    """``changes``: append, upsert or all."""

    def __init__(self, planner: Planner, changes: str, is_bounded: bool) -> None:
        self._planner = planner
        self._changes = changes
        self._is_bounded = is_bounded

    def getChangelogMode(self) -> Any:
        return _mode(self._planner, self._changes)

    def getScanRuntimeProvider(self, context: Any) -> object:
        return _Provider(self._is_bounded)

    def copy(self) -> object:
        return type(self)(self._planner, self._changes, self._is_bounded)

    def asSummaryString(self) -> str:
        return "tidegate"

    def applyProjection(self, projected: Any, *unused: object) -> None:
        """The plan says which columns are read."""

    def supportsNestedProjection(self) -> bool:
        return False

    class Java:
        implements = (
            f"{_CONNECTOR}.source.ScanTableSource",
            f"{_CONNECTOR}.source.abilities.SupportsProjectionPushDown",
        )


class _StreamSource(_Source):
    """A stream of the program: its timestamps are metadata, and its watermarks go on."""

    def listReadableMetadata(self) -> Any:
        types = self._planner.api.DataTypes
        found = self._planner.jvm.java.util.HashMap()
        found.put(ROWTIME, types.TIMESTAMP_LTZ(3).notNull())
        found.put(ROWTIME_UTC, types.TIMESTAMP(3).notNull())
        return found

    def applyReadableMetadata(self, keys: Any, produced: Any) -> None:
        """The plan says which keys are read."""

    def supportsMetadataProjection(self) -> bool:
        return False

    def applySourceWatermark(self) -> None:
        """Those of the stream go on."""

    class Java:
        implements = (
            f"{_CONNECTOR}.source.ScanTableSource",
            f"{_CONNECTOR}.source.abilities.SupportsReadingMetadata",
            f"{_CONNECTOR}.source.abilities.SupportsSourceWatermark",
        )


class _Provider(_JavaObject):
    """Says whether a table ends, which batch mode asks for."""

    def __init__(self, is_bounded: bool) -> None:
        self._is_bounded = is_bounded

    def isBounded(self) -> bool:
        return self._is_bounded

    class Java:
        implements = (f"{_CONNECTOR}.source.ScanTableSource$ScanRuntimeProvider",)


class _Sink(_JavaObject):
    """``changes`` as of a source, or ``any``: whatever the query makes."""

    def __init__(self, planner: Planner, changes: str) -> None:
        self._planner = planner
        self._changes = changes

    def getChangelogMode(self, requested: Any) -> Any:
        return requested if self._changes == "any" else _mode(self._planner, self._changes)

    def getSinkRuntimeProvider(self, context: Any) -> None:
        return None

    def copy(self) -> object:
        return type(self)(self._planner, self._changes)

    def asSummaryString(self) -> str:
        return "tidegate"

    class Java:
        implements = (f"{_CONNECTOR}.sink.DynamicTableSink",)


class _StreamSink(_Sink):
    """A stream of the program; the timestamps of its records may be written as metadata."""

    def listWritableMetadata(self) -> Any:
        found = self._planner.jvm.java.util.HashMap()
        found.put(ROWTIME, self._planner.api.DataTypes.TIMESTAMP_LTZ(3))
        return found

    def applyWritableMetadata(self, keys: Any, consumed: Any) -> None:
        """The plan says which keys are written."""

    class Java:
        implements = (f"{_CONNECTOR}.sink.DynamicTableSink", f"{_CONNECTOR}.sink.abilities.SupportsWritingMetadata")


def _options(context: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in dict(context.getCatalogTable().getOptions()).items()}


def _mode(planner: Planner, changes: str) -> Any:
    modes = planner.jvm.org.apache.flink.table.connector.ChangelogMode
    return {"append": modes.insertOnly, "upsert": modes.upsert, "all": modes.all}[changes]()
