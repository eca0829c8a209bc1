"""Name resolution in a query as in DuckDB: stars are expanded, positions and aliases in GROUP BY, aliases in HAVING."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.datastream.sql.engine import text_of
from tidegate.datastream.sql.query import Node, Query, column_ref, replaced
from tidegate.datastream.sql.translation import column_path, is_moment
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.values import Json


def named_items(query: Query, schema: pa.Schema) -> list[tuple[str, Node]]:
    """Returns the select list with a name for each column. Raises ``InvalidJob``, ``SchemaMismatch``."""
    named: list[tuple[str, Node]] = []
    for alias, node in query.items:
        if node["class"] == "STAR":
            named += _columns_of(node, query, schema)
        elif alias:
            named.append((alias, node))
        elif node["class"] == "COLUMN_REF":
            named.append((_name_of(node, query, schema), node))
        else:
            named.append((text_of(query, node), node))
    return [(name, with_columns(node, query, schema)) for name, node in named]


def with_columns(node: Json, query: Query, schema: pa.Schema) -> Json:
    """Normalises column names in an expression to the stream's, so that equal columns compare equal. Unknown names stay, and so do lambdas, which have
    names of their own."""

    def known(one: Node) -> Node | None:
        if one["class"] == "LAMBDA":
            return one
        if one["class"] != "COLUMN_REF" or is_moment(one, schema):
            return None
        try:
            name, fields = column_path(one, schema, query.table_names)
            return column_ref(name, *fields)
        except SchemaMismatch:
            return None

    return replaced(node, known)


def resolved_groups(query: Query, schema: pa.Schema, items: Sequence[tuple[str, Node]]) -> list[Node]:
    """Returns the GROUP BY expressions with positions (``GROUP BY 1``) and aliases resolved; a column takes precedence over an alias."""
    return [with_columns(_resolved_group(node, query, schema, items), query, schema) for node in query.groups]


def without_aliases(query: Query, schema: pa.Schema, items: Sequence[tuple[str, Node]]) -> Node | None:
    """Returns the HAVING condition with aliases resolved, unless the stream has such a column."""
    found = replaced(query.having, lambda one: _item_of_alias(one, schema, items))
    having: Node | None = with_columns(found, query, schema)
    return having


def _name_of(node: Node, query: Query, schema: pa.Schema) -> str:
    """Returns the name of a column or field in the stream's spelling."""
    if is_moment(node, schema):
        return str(node["column_names"][-1])
    name, fields = column_path(node, schema, query.table_names)
    return fields[-1] if fields else name


def _resolved_group(node: Node, query: Query, schema: pa.Schema, items: Sequence[tuple[str, Node]]) -> Node:
    if node["class"] == "CONSTANT":
        literal = node["literal"]
        position = int(literal["text"]) if literal["kind"] == "INTEGER" else 0
        if not 1 <= position <= len(items):
            raise InvalidJob(f"sql: GROUP BY {literal['text']!r} is not a column, expression or position: {query.text}")
        return items[position - 1][1]
    return _item_of_alias(node, schema, items) or node


def _item_of_alias(node: Node, schema: pa.Schema, items: Sequence[tuple[str, Node]]) -> Node | None:
    if node["class"] != "COLUMN_REF" or len(node["column_names"]) != 1:
        return None
    name = node["column_names"][0].lower()
    if any(column.lower() == name for column in schema.names):
        return None
    return next((item for alias, item in items if alias.lower() == name), None)


def _columns_of(star: Node, query: Query, schema: pa.Schema) -> list[tuple[str, Node]]:
    """Expands ``*`` with EXCLUDE, REPLACE and RENAME."""
    keys = [*star["qualified_exclude_list"], *(one["key"] for one in star["rename_list"])]
    for table in filter(None, [star["relation_name"], *(key["table"] for key in keys)]):
        if table.lower() not in query.table_names:
            raise SchemaMismatch(f"sql: no table {table!r}: the stream is called {' or '.join(query.table_names)}")
    left_out = {_found(name, schema) for name in star["exclude_list"]}
    left_out |= {_found(one["column"], schema) for one in star["qualified_exclude_list"]}
    computed = {_found(one["key"], schema): one["value"] for one in star["replace_list"]}
    written = {_found(one["key"], schema): str(one["key"]) for one in star["replace_list"]}
    renamed = {_found(one["key"]["column"], schema): one["value"] for one in star["rename_list"]}
    twice = left_out & (computed.keys() | renamed.keys()) | (computed.keys() & renamed.keys())
    if twice:
        raise InvalidJob(f"sql: the star changes the column {min(twice)!r} in two ways: {query.text}")
    return [
        (renamed.get(name, written.get(name, name)), computed.get(name, column_ref(name)))
        for name in schema.names
        if name not in left_out
    ]


def _found(name: Json, schema: pa.Schema) -> str:
    found = [column for column in schema.names if column.lower() == str(name).lower()]
    if len(found) != 1:
        raise SchemaMismatch(f"sql: no column {name!r} for the star: the stream has {', '.join(schema.names)}")
    return str(found[0])
