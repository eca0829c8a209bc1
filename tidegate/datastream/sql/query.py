"""The parts of a SELECT on a stream, from DuckDB's parser: no SQL is parsed here.

    text ─▶ DuckDB ``json_serialize_sql`` ─▶ tree of dicts ("nodes") ─▶ Query, or ``InvalidJob`` saying what streams do not have

A node has a ``class`` (COLUMN_REF, CONSTANT, FUNCTION, ...) and children; ``walk`` visits all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidegate.datastream.sql.grammar import check_grammar
from tidegate.functions.sql.database import planner
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Json, JsonObject

Node = JsonObject

_PLACES = ("query_location", "query_location_length", "alias")


@dataclass(frozen=True)
class Query:
    """A parsed query. ``items``: (name or empty, node) of the select list; ``groups``: the GROUP BY expressions."""

    text: str
    table_names: tuple[str, ...]
    """Table names by which columns may be qualified."""
    items: tuple[tuple[str, Node], ...]
    where: Node | None
    groups: tuple[Node, ...]
    having: Node | None
    zone: str
    """The time zone of instants (``zones``)."""
    tree: Node
    """The whole syntax tree, in which ``engine`` replaces the select list."""


def parse(text: str, zone: str) -> Query:
    """Parses a query. Raises ``InvalidJob``."""
    (answer,) = planner().execute("SELECT json_serialize_sql(?)", [text]).fetchall()[0]
    tree = json.loads(answer)
    if tree["error"]:
        place = f" (at character {tree['position']})" if "position" in tree else ""
        raise InvalidJob(f"sql: {tree['error_message']}{place}: {text}")
    if len(tree["statements"]) != 1:
        raise InvalidJob(f"sql: one SELECT is needed, not {len(tree['statements'])} statements: {text}")
    node = tree["statements"][0]["node"]
    _check(node, text)
    check_grammar(tree, text)
    table = node["from_table"]
    return Query(
        text,
        tuple({"input", table["alias"].lower() or "input"}),
        tuple((item["alias"], item) for item in node["select_list"]),
        node["where_clause"],
        tuple(node["group_expressions"]),
        node["having"],
        zone,
        tree,
    )


def walk(node: Json) -> Iterator[Node]:
    """Yields a node and all its descendants."""
    if isinstance(node, dict):
        if "class" in node:
            yield node
        for child in node.values():
            yield from walk(child)
    elif isinstance(node, list):
        for child in node:
            yield from walk(child)


def replaced(node: Json, by: Callable[[Node], Node | None]) -> Json:
    """Returns the tree with nodes replaced for which ``by`` returns another one, from the top."""
    if isinstance(node, dict):
        if "class" in node and (other := by(node)) is not None:
            return other
        return {name: replaced(child, by) for name, child in node.items()}
    return [replaced(child, by) for child in node] if isinstance(node, list) else node


def plain(node: Json) -> Json:
    """Returns a node without source positions and aliases, so that equal expressions compare equal."""
    if isinstance(node, dict):
        return {name: plain(child) for name, child in node.items() if name not in _PLACES}
    return [plain(child) for child in node] if isinstance(node, list) else node


def column_ref(name: str, *fields: str) -> Node:
    """Builds the node of DuckDB's syntax tree that refers to a column, or to a field in it."""
    names = [name, *fields]
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "query_location": 0, "column_names": names}


def hugeint(name: str) -> Node:
    """Returns the node of a column that DuckDB returned as ``HUGEINT`` and Arrow holds as a decimal, cast back."""
    statement = f'SELECT CAST("{name}" AS HUGEINT)'
    (answer,) = planner().execute("SELECT json_serialize_sql(?)", [statement]).fetchall()[0]
    found: Node = json.loads(answer)["statements"][0]["node"]["select_list"][0]
    return found


def arguments_of(node: Node) -> list[Node]:
    """Returns the arguments of a FUNCTION node."""
    return [argument["expression"] for argument in node["arguments"]]


def _check(node: Node, text: str) -> None:
    """Raises for clauses that streams do not support."""
    unsupported = {
        "UNION, INTERSECT and EXCEPT (use DataStream.union)": node["type"] != "SELECT_NODE",
        "WITH": bool(node["cte_map"]["map"]),
    }
    if node["type"] == "SELECT_NODE":
        table = node["from_table"]
        kinds = {modifier["type"] for modifier in node["modifiers"]}
        inside = {one["class"] for one in walk(node)}
        unsupported |= {
            "ORDER BY: a stream has no end to sort at": "ORDER_MODIFIER" in kinds,
            "LIMIT": "LIMIT_MODIFIER" in kinds,
            "DISTINCT: group by the columns in a window": "DISTINCT_MODIFIER" in kinds,
            "joins (use DataStream.join)": table["type"] == "JOIN",
            "subqueries": "SUBQUERY" in inside or table["type"] == "SUBQUERY",
            "OVER windows": "WINDOW" in inside,
            "QUALIFY": node["qualify"] is not None,
            "samples": node["sample"] is not None or table.get("sample") is not None,
            "GROUP BY ALL, sets of groups": node["aggregate_handling"] != "STANDARD_HANDLING"
            or node["group_sets"] == [[]]
            or [sorted(one) for one in node["group_sets"]] not in ([], [list(range(len(node["group_expressions"])))]),
        }
    for what, is_there in unsupported.items():
        if is_there:
            raise InvalidJob(f"sql on a stream knows no {what}: {text}")
    if table["type"] != "BASE_TABLE" or table["table_name"].lower() != "input":
        raise InvalidJob(f"sql reads FROM input, which is the stream; there is no other table: {text}")
