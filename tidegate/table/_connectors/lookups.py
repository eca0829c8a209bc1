"""Builds the lookup table of a lookup join's node, with its cache and retries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.functions.sql.changelog import has_kinds
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.plan.nodes import LookupJoin1
from tidegate.plan.specs import AsyncOptions, TableSource
from tidegate.table._connectors.lookup_options import MAX_RETRIES, PYTHON, cache_of, function_of, limits_of
from tidegate.table._connectors.registry import check_table, connector_of
from tidegate.table._connectors.shape import shape_of
from tidegate.table._connectors.sources import file_source, physical_type, read_columns
from tidegate.table._execution.lookup_functions import AsyncLookupFunction
from tidegate.table._execution.python_lookups import AsyncPythonTable, PythonTable
from tidegate.table._lookup.async_join import AsyncLookup
from tidegate.table._lookup.files import FileRows
from tidegate.table._lookup.join import LookupNode
from tidegate.table._lookup.partial_cache import CachedTable, CacheLimits
from tidegate.table._lookup.port import LookupTable
from tidegate.table._lookup.postgres import PostgresLookup, PostgresPlace, PostgresRows, check_type
from tidegate.table._lookup.reloads import reloads_of
from tidegate.table._lookup.retries import RetriedTable, Retries
from tidegate.table._lookup.whole_table import WholeTable

_CAPACITY = 100
"""The default of Flink's ``table.exec.async-lookup.buffer-capacity``, in keys."""
_TIMEOUT_MS = 180_000
"""The default of Flink's ``table.exec.async-lookup.timeout``."""


def table_of_lookup(node: LookupNode) -> LookupTable | AsyncLookup:
    """Builds the table that a lookup join reads. Raises ``InvalidJob`` for what the table does not support."""
    found = node.temporal_table
    retries = Retries.of(node.retry_options) if isinstance(node, LookupJoin1) else None
    keys = sorted(map(int, node.lookup_keys))
    return _table(node.id, found.lookup_table_source, found.output_type, keys, node.async_options, retries)


def _table(
    node_id: int,
    source: TableSource,
    produced: LogicalType,
    keys: Sequence[int],
    async_options: AsyncOptions | None,
    retries: Retries | None,
) -> LookupTable | AsyncLookup:
    """Builds a lookup table. ``produced``: the columns that the table returns; ``keys``: the positions of the lookup keys in them."""
    table, name = source.table.resolved_table, source.table.name
    if table is None or table.options is None:
        raise InvalidJob(f"node {node_id}: the plan does not hold the table {name}: compile it with its options")
    options, shape = table.options, shape_of(name, table)
    check_table(shape, options, is_source=True)
    if not connector_of(name, options).is_looked_up:
        raise InvalidJob(f"node {node_id}: the connector '{options['connector']}' of the table {name} has no lookups")
    physical = physical_type(table)
    columns, metadata = read_columns(node_id, source, options, len(physical.fields))
    if options["connector"] == "filesystem":
        read = file_source(shape, options, physical, metadata)
        if has_kinds(read.schema):
            raise InvalidJob(
                f"node {node_id}: the files of the table {name} have changes ({options['format']}), and a lookup join reads rows: join with "
                "its rows as a stream, without FOR SYSTEM_TIME AS OF"
            )
        files = FileRows(name, read, columns, arrow_schema(produced))
        return _retried(WholeTable(files, keys, reloads_of(options)), retries)
    kind = cache_of(options)
    if options["connector"] == PYTHON:
        function = function_of(options)
        if isinstance(function, AsyncLookupFunction):
            cache = limits_of(options) if kind == "PARTIAL" else None
            return _asynchronous(function, physical, columns, keys, async_options, retries, cache)
        return _retried(_cached(PythonTable(function, physical, columns, keys), kind, options), retries)
    fields = tuple(physical.fields[at] for at in columns)
    stored = LogicalType(TypeRoot.ROW, fields=fields)
    for field in fields:
        check_type(name, field.name, field.type)
    place = _postgres(name, options)
    if kind == "FULL":
        return _retried(WholeTable(PostgresRows(place, stored), keys, reloads_of(options)), retries)
    return _retried(_cached(PostgresLookup(place, stored, keys), kind, options), retries)


def _cached(table: LookupTable, kind: str, options: Mapping[str, str]) -> LookupTable:
    return CachedTable(table, limits_of(options)) if kind == "PARTIAL" else table


def _retried(table: LookupTable, retries: Retries | None) -> LookupTable:
    return table if retries is None else RetriedTable(table, retries)


def _asynchronous(
    function: AsyncLookupFunction,
    physical: LogicalType,
    columns: Sequence[int],
    keys: Sequence[int],
    options: AsyncOptions | None,
    retries: Retries | None,
    cache: CacheLimits | None,
) -> AsyncLookup:
    """Builds a table that is asked asynchronously: in order, unless the planner found that the order does not count."""
    timeout_ms = _TIMEOUT_MS if options is None else options.timeout
    return AsyncLookup(
        AsyncPythonTable(function, physical, columns, keys, timeout_s=timeout_ms / 1000),
        capacity=_CAPACITY if options is None else options.capacity,
        timeout_ms=timeout_ms,
        ordered=options is None or options.is_key_ordered or options.output_mode != "UNORDERED",
        attempts=0 if retries is None else retries.attempts,
        delay_ms=0 if retries is None else round(retries.delay_s * 1000),
        cache=cache,
    )


def _postgres(name: str, options: Mapping[str, str]) -> PostgresPlace:
    from tidegate.connectors.postgres.connections import library

    url = options["url"]
    given: dict[str, Any] = {"user": options.get("username"), "password": options.get("password")}
    psycopg = library()
    try:
        conninfo = psycopg.conninfo.make_conninfo(
            url.removeprefix("jdbc:"), **{key: value for key, value in given.items() if value is not None}
        )
    except psycopg.Error as error:
        raise InvalidJob(
            f"the option 'url' of the table {name} is not one of PostgreSQL: {str(error).strip()}"
        ) from None
    return PostgresPlace(name, conninfo, options["table-name"], int(options.get(MAX_RETRIES, "3")))


__all__ = ["table_of_lookup"]
