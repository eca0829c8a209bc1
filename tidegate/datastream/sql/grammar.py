"""The supported grammar of queries: a table of the nodes that DuckDB's parser makes, with the fields that are handled here.

Law: whatever the tree holds and this table does not know is refused, with the place, before anything is built. A field that
is not in the table may only hold nothing (``null``, ``false``, an empty text or list), so that a clause of a later DuckDB is
refused too rather than ignored.
"""

from __future__ import annotations

from tidegate.model.errors import InvalidJob
from tidegate.model.values import Json, JsonObject

_PLACE = frozenset({"class", "type", "alias", "query_location", "query_location_length"})

_EXPRESSIONS: dict[str, frozenset[str]] = {
    "BETWEEN": frozenset({"input", "lower", "upper"}),
    "CASE": frozenset({"case_checks", "else_expr"}),
    "CAST": frozenset({"child", "try_cast", "type_expr"}),
    "COLLATE": frozenset({"child", "collation"}),
    "COLUMN_REF": frozenset({"column_names"}),
    "COMPARISON": frozenset({"left", "right"}),
    "CONJUNCTION": frozenset({"children"}),
    "CONSTANT": frozenset({"literal"}),
    "FUNCTION": frozenset(
        {"function_name", "arguments", "qualified_name", "is_operator", "distinct", "filter", "order_bys"}
    ),
    "LAMBDA": frozenset({"lhs", "expr", "syntax_type"}),
    "OPERATOR": frozenset({"children"}),
    "STAR": frozenset({"relation_name", "exclude_list", "qualified_exclude_list", "replace_list", "rename_list"}),
    "TYPE": frozenset({"type_name", "children", "qualified_name"}),
}
_OPERATORS = frozenset(
    {
        "ARRAY_CONSTRUCTOR", "ARRAY_EXTRACT", "ARRAY_SLICE", "COMPARE_IN", "COMPARE_NOT_IN", "OPERATOR_COALESCE",
        "OPERATOR_IS_NOT_NULL", "OPERATOR_IS_NULL", "OPERATOR_NOT", "OPERATOR_NULLIF", "OPERATOR_TRY", "STRUCT_EXTRACT",
    }
)  # fmt: skip
_STATEMENT = {
    "type", "select_list", "from_table", "where_clause", "group_expressions", "group_sets", "aggregate_handling", "having",
    "cte_map",
}  # fmt: skip
_PARTS: dict[str, frozenset[str]] = {
    "arguments": frozenset({"name", "expression"}),
    "case_checks": frozenset({"when_expr", "then_expr"}),
    "cte_map": frozenset(),
    "from_table": _PLACE | {"table_name", "qualified_name"},
    "key": frozenset({"column", "table"}),
    "literal": frozenset({"kind", "text"}),
    "node": frozenset(_STATEMENT),
    "order_bys": frozenset({"type", "orders"}),
    "orders": frozenset({"type", "null_order", "expression"}),
    "qualified_exclude_list": frozenset({"column", "table"}),
    "qualified_name": frozenset({"path"}),
    "rename_list": frozenset({"key", "value"}),
    "replace_list": frozenset({"key", "value"}),
    "statements": frozenset({"node"}),
}
"""Values of fields that are not expressions, by the name of the field."""
_WORDS = {
    "at_clause": "AT (VERSION or TIMESTAMP)",
    "catalog": "names of catalogs",
    "catalog_name": "names of catalogs",
    "column_name_alias": "new names of all columns, as in FROM input t(a, b)",
    "columns": "COLUMNS(...)",
    "cte_map": "WITH",
    "export_state": "EXPORT_STATE",
    "expr": "COLUMNS(...)",
    "named_param_map": "parameters (write the value into the query)",
    "schema": "names of schemas",
    "schema_name": "names of schemas",
}
_CLASSES = {"DEFAULT": "DEFAULT", "PARAMETER": "parameters (write the value into the query)", "WINDOW": "OVER windows"}


def check_grammar(tree: JsonObject, text: str) -> None:
    """Raises ``InvalidJob`` for any part of a serialised query that streams do not support."""
    for statement in tree["statements"]:
        _check(statement, "statements", text)
    select = tree["statements"][0]["node"]
    for item in select["select_list"]:
        if item["class"] != "STAR":
            _refuse_stars(item, text)
    for name in ("where_clause", "group_expressions", "having"):
        _refuse_stars(select[name], text)


def _check(value: Json, field: str, text: str) -> None:
    if isinstance(value, list):
        for one in value:
            _check(one, field, text)
    elif isinstance(value, dict):
        known = _known_fields(value, field, text)
        for name, inside in value.items():
            if name not in known and not _is_nothing(inside):
                _refuse(_WORDS.get(name, name.replace("_", " ")), value, text)
            _check(inside, name, text)


def _known_fields(node: JsonObject, field: str, text: str) -> frozenset[str]:
    kind = node.get("class")
    if kind is None:
        if field not in _PARTS and not _is_nothing(node):
            _refuse(_WORDS.get(field, field.replace("_", " ")), node, text)
        return _PARTS.get(field, frozenset())
    if kind not in _EXPRESSIONS:
        _refuse(_CLASSES.get(kind, str(kind).lower()), node, text)
    if kind == "OPERATOR" and node["type"] not in _OPERATORS:
        _refuse(str(node["type"]).removeprefix("OPERATOR_").replace("_", " ").lower(), node, text)
    return _PLACE | _EXPRESSIONS[kind]


def _is_nothing(value: Json) -> bool:
    return not value or (isinstance(value, dict) and not any(value.values()))


def _refuse_stars(value: Json, text: str) -> None:
    """Raises for a star inside an expression, which is a list of columns (``count(*)`` has none)."""
    if isinstance(value, list):
        for one in value:
            _refuse_stars(one, text)
    elif isinstance(value, dict):
        if value.get("class") == "STAR":
            _refuse("* inside of an expression (COLUMNS, UNPACK, * LIKE)", value, text)
        for inside in value.values():
            _refuse_stars(inside, text)


def _refuse(what: str, node: JsonObject, text: str) -> None:
    begin, length = node.get("query_location"), node.get("query_location_length", 0)
    place = ""
    if isinstance(begin, int) and 0 <= begin < len(text.encode()) and length:
        place = f", at {text.encode()[begin : begin + length].decode(errors='replace')!r}"
    raise InvalidJob(f"sql on a stream knows no {what}{place}: {text}")
