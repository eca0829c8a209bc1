"""Writes ``lookups.json`` beside it: the plan of each statement, as Flink 2.3's planner compiles it for tables of ours, and the changes that Flink gives.

Run in the root of the repository as a script, which takes a minute. Flink has no table in its distribution that a lookup join can ask; here it asks one
whose rows are in memory, by its own ``FullCachingLookupProvider``, at parallelism 1.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.contract.table_lookups.statements import (
    PROBE,
    PROBE_COLUMNS,
    STATEMENTS,
    TABLE,
    TABLE_COLUMNS,
    Texts,
)
from tidegate.table import EnvironmentSettings, TableEnvironment
from tidegate.table._planner import tables
from tidegate.table._planner.planner import Planner, running_planner
from tidegate.table._planner.tables import NoFunctions

RECORDING = Path(__file__).parent / "lookups.json"


class _Held(tables._JavaObject):
    """A table of Flink's whose rows are in memory."""

    def __init__(self, planner: Planner, row_type: Any) -> None:
        self._planner, self._row_type = planner, row_type

    def getLookupRuntimeProvider(self, context: Any) -> Any:
        jvm = self._planner.jvm
        flink = jvm.org.apache.flink
        runtime, source = flink.table.runtime, flink.table.connector.source
        rows = jvm.java.util.ArrayList()
        for texts in TABLE:
            rows.add(_row(jvm, texts))
        serializer = runtime.typeutils.InternalTypeInfo.of(self._row_type).toRowSerializer()
        read = source.InputFormatProvider.of(flink.streaming.api.legacy.io.CollectionInputFormat(rows, serializer))
        trigger = source.lookup.cache.trigger.PeriodicCacheReloadTrigger
        modes = jvm.java.lang.Class.forName(f"{PERIODIC}$ScheduleMode").getEnumConstants()
        hourly = trigger(jvm.java.time.Duration.ofHours(1), modes[0])
        return source.lookup.FullCachingLookupProvider.of(read, hourly)

    def copy(self) -> object:
        return _Held(self._planner, self._row_type)

    def asSummaryString(self) -> str:
        return "held"

    class Java:
        implements = ("org.apache.flink.table.connector.source.LookupTableSource",)


PERIODIC = "org.apache.flink.table.connector.source.lookup.cache.trigger.PeriodicCacheReloadTrigger"


class _Factory(tables._Factory):
    def createDynamicTableSource(self, context: Any) -> object:
        row_type = context.getCatalogTable().getResolvedSchema().toPhysicalRowDataType().getLogicalType()
        return _Held(self._planner, row_type)

    class Java:
        implements = ("org.apache.flink.table.factories.DynamicTableSourceFactory",)


def main() -> None:
    planner = running_planner()
    plans = _plans()
    flink = _flink(planner)
    found = {}
    for name, (_, statement) in STATEMENTS.items():
        changes = []
        results = flink.executeSql(statement).collect()
        while results.hasNext():
            row = results.next()
            fields = [row.getField(at) for at in range(row.getArity())]
            changes.append([row.getKind().shortString(), [None if one is None else _text(one) for one in fields]])
        found[name] = {"plan": plans[name], "changes": changes}
        print(name, len(changes), file=sys.stderr, flush=True)
    RECORDING.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", "utf-8")
    planner.stop()
    os._exit(0)  # the cluster's threads would not end


def _plans() -> dict[str, Any]:
    t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    t_env.execute_sql(f"CREATE TABLE o ({PROBE_COLUMNS}, pt AS PROCTIME()) WITH ('connector' = 'datagen')")
    t_env.execute_sql(
        f"CREATE TABLE d ({TABLE_COLUMNS}) WITH ('connector' = 'filesystem', 'path' = '/d', 'format' = 'csv')"
    )
    found = {}
    for number, (name, (columns, statement)) in enumerate(STATEMENTS.items()):
        t_env.execute_sql(f"CREATE TABLE s{number} ({columns}) WITH ('connector' = 'print')")
        plan = t_env.compile_plan_sql(f"INSERT INTO s{number} {statement}")
        found[name] = json.loads(plan.as_json_string())
    return found


def _flink(planner: Planner) -> Any:
    t_env = planner.api.TableEnvironment.create(planner.api.EnvironmentSettings.inStreamingMode())
    t_env.getConfig().set("parallelism.default", "1")
    t_env.getConfig().set("rest.bind-port", "0")
    t_env.getConfig().set("taskmanager.memory.network.min", "64m")
    t_env.getConfig().set("taskmanager.memory.network.max", "64m")
    module = tables._Module(planner, NoFunctions())
    module._factory = _Factory(planner)
    t_env.loadModule("held", module)
    t_env.executeSql(f"CREATE TABLE d ({TABLE_COLUMNS}) WITH ('connector' = 'held')")
    names = [column.split() for column in PROBE_COLUMNS.split(", ")]
    casts = ", ".join(f"CAST(NULLIF({name}, '') AS {kind}) AS {name}" for name, kind in names)
    rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in PROBE)
    t_env.executeSql(
        f"CREATE TEMPORARY VIEW o AS SELECT {casts}, PROCTIME() AS pt FROM (VALUES {rows}) AS t({', '.join(n for n, _ in names)})"
    )
    return t_env


def _literal(text: str | None) -> str:
    return f"'{text or ''}'"  # a null would make a source of its own of each row


def _text(value: Any) -> str:
    return (
        str(value)
        if isinstance(value, (int, float, str))
        else str(value.toString() if hasattr(value, "toString") else value)
    )


def _row(jvm: Any, texts: Sequence[str | None] | Texts) -> Any:
    data = jvm.org.apache.flink.table.data
    row = data.binary.BinaryRowData(len(texts))
    writer = data.writer.BinaryRowWriter(row)
    y, identity, price, z, x = texts
    for at, text in enumerate(texts):
        if text is None and at != 2:
            writer.setNullAt(at)
    if y is not None:
        writer.writeString(0, data.StringData.fromString(y))
    if identity is not None:
        writer.writeLong(1, int(identity))
    if price is None:
        writer.setNullAt(2)
    else:
        writer.writeDecimal(2, data.DecimalData.fromBigDecimal(jvm.java.math.BigDecimal(price), 10, 2), 10)
    if z is not None:
        writer.writeInt(3, int(z))
    if x is not None:
        writer.writeDouble(4, float(x))
    writer.complete()
    return row


if __name__ == "__main__":
    main()
