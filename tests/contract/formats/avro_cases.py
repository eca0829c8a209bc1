"""Which schemas Avro messages are written and read with: every pair of kinds of the specification's table, and what is around it.

A case is a record ``R`` with one field: its type at the writer and at the reader, and the value in Avro's JSON. A reader's field that the
writer does not have takes its default.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Case = dict[str, Any]


def record(name: str, *fields: Any, **more: Any) -> Any:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> Any:
    return {"name": name, "type": kind, **more}


def logical(kind: str, name: str, **more: Any) -> Any:
    return {"type": kind, "logicalType": name, **more}


def fixed(name: str, size: int, **more: Any) -> Any:
    return {"type": "fixed", "name": name, "size": size, **more}


def enum(name: str, *symbols: str, **more: Any) -> Any:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def array(items: Any) -> Any:
    return {"type": "array", "items": items}


def mapping(values: Any) -> Any:
    return {"type": "map", "values": values}


def decimal(precision: int, scale: int, kind: Any = "bytes") -> Any:
    known = kind if isinstance(kind, dict) else {"type": kind}
    return {**known, "logicalType": "decimal", "precision": precision, "scale": scale}


KINDS: dict[str, tuple[Any, list[Any]]] = {
    "null": ("null", [None]),
    "boolean": ("boolean", [True]),
    "int": ("int", [7, -(2**31), 16777217]),
    "long": ("long", [7, 2**63 - 1, 2**24 + 1, 9007199791611905]),
    "float": ("float", [1.5, 0.1]),
    "double": ("double", [1.5, 0.1]),
    "bytes": ("bytes", ["ab"]),
    "string": ("string", ["ab", "ä"]),
    "fixed": (fixed("F", 2), ["ab"]),
    "enum": (enum("E", "A", "B"), ["B"]),
    "array": (array("int"), [[1, 2]]),
    "map": (mapping("int"), [{"k": 1}]),
    "record": (record("I", field("q", "int")), [{"q": 1}]),
    "union": (["null", "int"], [None, {"int": 7}]),
    "date": (logical("int", "date"), [19000]),
    "time-millis": (logical("int", "time-millis"), [3600000]),
    "time-micros": (logical("long", "time-micros"), [3600000001]),
    "timestamp-millis": (logical("long", "timestamp-millis"), [1700000000123, -1]),
    "timestamp-micros": (logical("long", "timestamp-micros"), [1700000000123456]),
    "local-timestamp-millis": (logical("long", "local-timestamp-millis"), [1700000000123]),
    "local-timestamp-micros": (logical("long", "local-timestamp-micros"), [1700000000123456]),
    "decimal": (decimal(10, 2), ["\u007b"]),
    "decimal-fixed": (decimal(4, 2, fixed("D", 2)), ["\u0000\u007b"]),
    "uuid": (logical("string", "uuid"), ["00000000-0000-0000-0000-000000000005"]),
    "unknown logical": (logical("long", "of-nobody"), [7]),
    "logical of another type": (logical("string", "timestamp-millis"), ["ab"]),
    "uuid-fixed": (fixed("U", 16, logicalType="uuid"), ["0123456789abcdef"]),
    "decimal without precision": ({"type": "bytes", "logicalType": "decimal"}, ["ab"]),
}
"""A type of each kind, with values in Avro's JSON (bytes are texts of their Latin-1 characters)."""

INNER = record("I", field("q", "int"), field("z", "string", default="zz"))
NODE = record("N", field("v", "int"), field("next", ["null", "N"], default=None))
ADDRESS = record("Address", field("city", "string"))


def _pairs() -> Iterator[tuple[str, Any, Any, list[Any]]]:
    for written, (kind, values) in KINDS.items():
        for wanted, (other, _) in KINDS.items():
            yield f"{written} as {wanted}", kind, other, values
    yield from _named()
    yield from _unions()
    yield from _nested()


def _named() -> Iterator[tuple[str, Any, Any, list[Any]]]:
    yield "fixed of another size", fixed("F", 2), fixed("F", 3), ["ab"]
    yield "fixed of another name", fixed("F", 2), fixed("G", 2), ["ab"]
    yield "fixed by its alias", fixed("F", 2), fixed("G", 2, aliases=["F"]), ["ab"]
    yield "fixed of another namespace", fixed("F", 2, namespace="a"), fixed("F", 2, namespace="b"), ["ab"]
    yield "enum of another name", enum("E", "A"), enum("G", "A"), ["A"]
    yield "enum by its alias", enum("E", "A"), enum("G", "A", aliases=["E"]), ["A"]
    yield "enum of another namespace", enum("E", "A", namespace="a"), enum("E", "A", namespace="b"), ["A"]
    yield "enum in another order", enum("E", "A", "B", "C"), enum("E", "C", "B", "A"), ["A", "C"]
    yield "enum without a symbol", enum("E", "A", "B"), enum("E", "A"), ["A", "B"]
    yield "enum with a default", enum("E", "A", "B"), enum("E", "A", "U", default="U"), ["A", "B"]
    yield "enum with the writer's default", enum("E", "A", "B", default="A"), enum("E", "A"), ["B"]
    yield "record of another name", record("I", field("q", "int")), record("J", field("q", "int")), [{"q": 1}]
    yield (
        "record by its alias",
        record("I", field("q", "int")),
        record("J", field("q", "int"), aliases=["I"]),
        [{"q": 1}],
    )
    yield (
        "record of another namespace",
        record("I", field("q", "int"), namespace="a"),
        record("I", field("q", "int"), namespace="b"),
        [{"q": 1}],
    )
    two = record("I", field("a", "int"), field("b", "string"))
    yield "fields in another order", two, record("I", field("b", "string"), field("a", "int")), [{"a": 1, "b": "x"}]
    yield "a field left out", two, record("I", field("b", "string")), [{"a": 1, "b": "x"}]
    yield "a field by its alias", two, record("I", field("c", "long", aliases=["a"])), [{"a": 1, "b": "x"}]
    both = record("I", field("a", "int"), field("b", "int"))
    yield "a field and its alias", both, record("I", field("b", "int", aliases=["a"])), [{"a": 1, "b": 2}]
    yield "a field without a default", two, record("I", field("c", "int")), [{"a": 1, "b": "x"}]
    yield (
        "a field that may be null without a default",
        two,
        record("I", field("c", ["null", "int"])),
        [{"a": 1, "b": "x"}],
    )
    yield (
        "a record that is not read",
        record("O", field("a", two), field("b", "int")),
        record("O", field("b", "int")),
        [{"a": {"a": 1, "b": "x"}, "b": 5}],
    )
    yield (
        "a type by its full name",
        record("P", field("a", ADDRESS), field("b", "com.shop.Address"), namespace="com.shop"),
        record("P", field("b", ADDRESS), field("a", "com.shop.Address"), namespace="com.shop"),
        [{"a": {"city": "x"}, "b": {"city": "y"}}],
    )
    longer = record("Address", field("city", "string"), field("zip", "int", default=1))
    other = record("Other", field("city", "string"), aliases=["Address"])
    yield (
        "one type as two",
        record("P", field("a", ADDRESS), field("b", "Address")),
        record("P", field("a", longer), field("b", "Address")),
        [{"a": {"city": "x"}, "b": {"city": "y"}}],
    )
    yield (
        "a type of the null namespace",
        record("P", field("a", ADDRESS), field("b", "Address")),
        record("P", field("a", ADDRESS), field("b", record("Q", field("city", "string"), aliases=["Address"]))),
        [{"a": {"city": "x"}, "b": {"city": "y"}}],
    )
    yield (
        "record by the alias of a namespace",
        record("I", field("q", "int"), namespace="a"),
        record("J", field("q", "int"), namespace="b", aliases=["a.I"]),
        [{"q": 1}],
    )
    yield "record by an alias", ADDRESS, other, [{"city": "x"}]


def _unions() -> Iterator[tuple[str, Any, Any, list[Any]]]:
    many = ["null", "int", "string", enum("E", "A", "B"), record("I", field("q", "int")), array("int")]
    values = [None, {"int": 7}, {"string": "x"}, {"E": "B"}, {"I": {"q": 1}}, {"array": [1]}]
    yield "union in another order", many, many[::-1], values
    yield "union with fewer branches", many, ["null", "string"], values
    yield "union as its only branch", ["int"], "int", [{"int": 7}]
    yield "union of two numbers as a wider one", ["int", "long"], "double", [{"int": 7}, {"long": 8}]
    yield "union of texts as bytes", ["string", "bytes"], "bytes", [{"string": "x"}, {"bytes": "y"}]
    for kind in ("int", "long", "float", "string", "bytes"):
        value = KINDS[kind][1][0]
        for branches in (
            ["null", "string"],
            ["double", "long"],
            ["float", "double"],
            ["bytes", "null"],
            ["long", "int"],
            ["string", "bytes"],
        ):
            yield f"{kind} as {branches}", kind, branches, [value]
            yield f"null or {kind} as {branches}", ["null", kind], branches, [{kind: value}]
    shape, twin = record("I", field("q", "int")), record("J", field("q", "int"))
    yield "record as one of two of its shape", shape, ["null", twin, shape], [{"q": 1}]
    yield "record as one of its shape", shape, ["null", twin], [{"q": 1}]
    yield "record as one of another shape", shape, ["null", record("I", field("x", "int"))], [{"q": 1}]
    yield (
        "two records as two",
        [shape, record("J", field("x", "int"))],
        [record("J", field("x", "long")), shape],
        [
            {"I": {"q": 1}},
            {"J": {"x": 2}},
        ],
    )
    yield "enum in a union", enum("E", "A"), ["null", enum("E", "A", "B")], ["A"]
    yield "enum of another name in a union", enum("E", "A"), ["null", enum("G", "A", "B")], ["A"]
    yield "fixed in a union", fixed("F", 2), ["null", fixed("F", 2)], ["ab"]
    yield "array in a union", array("int"), ["null", array("long")], [[1]]
    yield "array of another type in a union", array("int"), ["null", array("string")], [[1]]
    yield "map in a union", mapping("int"), ["null", mapping("double")], [{"k": 1}]
    at = logical("long", "timestamp-millis")
    yield "long as null or an instant", "long", ["null", at], [1700000000123]
    yield "null or long as an instant", ["null", "long"], at, [{"long": 1700000000123}, None]
    yield "null or an instant as long", ["null", at], "long", [{"long": 1700000000123}]
    yield "null or long as null or an instant", ["null", "long"], ["null", at], [{"long": 1700000000123}, None]
    yield "null or int as null or an instant", ["null", "int"], ["null", at], [{"int": 1700000000}, None]
    yield "null or bytes as null or a decimal", ["null", "bytes"], ["null", decimal(10, 2)], [{"bytes": "\u007b"}, None]
    yield "null or a decimal as null or bytes", ["null", decimal(10, 2)], ["null", "bytes"], [{"bytes": "\u007b"}, None]
    yield (
        "null or string as null or a uuid",
        ["null", "string"],
        ["null", KINDS["uuid"][0]],
        [{"string": KINDS["uuid"][1][0]}],
    )


def _nested() -> Iterator[tuple[str, Any, Any, list[Any]]]:
    at, day = logical("long", "timestamp-millis"), logical("int", "date")
    yield "list of long as of instants", array("long"), array(at), [[1700000000123], []]
    yield "list of instants as of long", array(at), array("long"), [[1700000000123]]
    yield "map of long as of instants", mapping("long"), mapping(at), [{"k": 1700000000123}]
    yield "map of int as of dates that may be null", mapping("int"), mapping(["null", day]), [{"k": 19000}]
    yield "list of texts as of bytes", array("string"), array("bytes"), [["ab"]]
    yield "list of bytes as of decimals", array("bytes"), array(decimal(10, 2)), [["\u007b"]]
    yield "list of texts as of uuids", array("string"), array(KINDS["uuid"][0]), [KINDS["uuid"][1]]
    yield (
        "list of records that gain a field",
        array(record("I", field("q", "int"))),
        array(INNER),
        [[{"q": 1}, {"q": 2}]],
    )
    yield "map of records that gain a field", mapping(record("I", field("q", "int"))), mapping(INNER), [{"k": {"q": 1}}]
    inner = record("I", field("t", "long"), field("n", "int"))
    yield (
        "an instant in a record",
        inner,
        record("I", field("n", "double"), field("t", at)),
        [{"t": 1700000000123, "n": 3}],
    )
    yield (
        "a record in a record in a list",
        array(record("O", field("i", record("I", field("q", "int"))))),
        array(record("O", field("i", INNER), field("more", "int", default=4))),
        [[{"i": {"q": 1}}]],
    )
    yield "list as map", array("int"), mapping("int"), [[1]]
    yield "list of int as list of texts", array("int"), array("string"), [[1]]
    yield "an empty list of int as list of texts", array("int"), array("string"), [[]]


def _defaults() -> Iterator[tuple[str, Any, Any]]:
    yield "null", "null", None
    yield "boolean", "boolean", True
    yield "int", "int", 5
    yield "long", "long", 5
    yield "float", "float", 0.1
    yield "float of a whole number", "float", 1
    yield "double", "double", 0.1
    yield "string", "string", "ä"
    yield "bytes", "bytes", "\u00ff\u0000a"
    yield "fixed", fixed("F", 1), "\u00fe"
    yield "enum", enum("E", "A", "B"), "B"
    yield "array of bytes", array("bytes"), ["\u00ff"]
    yield "array of instants", array(logical("long", "timestamp-millis")), [1700000000123]
    yield "map of bytes", mapping("bytes"), {"k": "\u00ff"}
    yield "record", INNER, {"q": 3}
    yield "record with all fields", INNER, {"q": 3, "z": "y"}
    yield "record with defaults only", record("I", field("z", "bytes", default="\u00ff")), {}
    yield "record in a record", record("O", field("i", INNER), field("b", "bytes", default="\u00fe")), {"i": {"q": 1}}
    yield "array of records", array(INNER), [{"q": 1}, {"q": 2, "z": ""}]
    yield "record that contains itself", NODE, {"v": 1}
    for name in ("date", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros"):
        yield name, KINDS[name][0], KINDS[name][1][0]
    for name in ("local-timestamp-millis", "local-timestamp-micros", "decimal", "decimal-fixed", "uuid"):
        yield name, KINDS[name][0], KINDS[name][1][0]
    yield "decimal below zero", decimal(5, 2), "\u00ff"
    yield "null of a union", ["null", "int"], None
    yield "bytes of a union", ["bytes", "null"], "\u00ff"
    yield "instant of a union", [logical("long", "timestamp-millis"), "null"], 1700000000123
    yield "decimal of a union", [decimal(5, 2), "null"], "\u0001"
    yield "record of a union", [INNER, "null"], {"q": 3}
    yield "enum without its symbol", enum("E", "A", default="A"), "A"


def cases() -> list[Case]:
    found = []
    for name, written, read, values in _pairs():
        writer, reader = record("R", field("t", written)), record("R", field("t", read))
        found += [{"name": name, "writer": writer, "reader": reader, "value": {"t": value}} for value in values]
    for name, kind, default in _defaults():
        found.append(
            {
                "name": f"default: {name}",
                "writer": record("R", field("a", "int")),
                "reader": record("R", field("a", "int"), field("t", kind, default=default)),
                "value": {"a": 1},
            }
        )
    found.append(
        {
            "name": "a record that contains itself",
            "writer": NODE,
            "reader": record("N", field("v", "long"), field("next", ["null", "N"]), field("more", "int", default=1)),
            "value": {"v": 1, "next": {"N": {"v": 2, "next": None}}},
        }
    )
    return found
