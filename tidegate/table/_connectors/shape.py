"""The schema of a table as connectors see it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.plan.specs import ResolvedCatalogTable


@dataclass(frozen=True)
class TableShape:
    """Name, columns and keys of a table. ``name``: as in messages. ``columns``: the names of the physical ones."""

    name: str
    columns: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()


def shape_of(name: str, table: ResolvedCatalogTable) -> TableShape:
    """Returns the shape of a table of a plan."""
    key = table.schema.primary_key
    columns = tuple(column.name for column in table.schema.columns if column.kind == "PHYSICAL")
    return TableShape(name, columns, () if key is None else key.columns, table.partition_keys)
