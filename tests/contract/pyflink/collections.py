"""Pairs of a declared type and a value, for ``from_collection``: each an expression, evaluated with the names of PyFlink or of tidegate."""

from __future__ import annotations

import datetime
import decimal
import importlib
from typing import Any

VALUES = [
    "None",
    "True",
    "False",
    "0",
    "1",
    "-1",
    "127",
    "128",
    "32768",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "1.0",
    "1.5",
    "-0.0",
    "0.1",
    "1e300",
    "float('nan')",
    "float('inf')",
    "''",
    "'a'",
    "'ab'",
    "'1'",
    "'true'",
    "b''",
    "b'ab'",
    "bytearray(b'ab')",
    "Decimal('1')",
    "Decimal('1.50')",
    "date(2026, 1, 2)",
    "time(1, 2, 3)",
    "time(1, 2, 3, 456789)",
    "datetime(2026, 1, 2, 3, 4, 5)",
    "datetime(2026, 1, 2, 3, 4, 5, 678901)",
    "Instant.of_epoch_milli(1500)",
    "[]",
    "[1]",
    "['a', None]",
    "[[1]]",
    "()",
    "(1,)",
    "(1, 2)",
    "('a', 1)",
    "(None, None)",
    "{}",
    "{'a': 1}",
    "{1: 'a'}",
    "Row(1)",
    "Row(1, 2)",
    "Row('a', 1)",
    "Row(f0='a', f1=1)",
    "Row(b=1, a='a')",
    "{1, 2}",
]
SCALARS = [
    *("STRING", "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR", "BIG_INT", "BIG_DEC"),
    *("SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP", "INSTANT", "PICKLED_BYTE_ARRAY"),
]
_INNER = [
    "STRING",
    "BOOLEAN",
    "BYTE",
    "INT",
    "LONG",
    "FLOAT",
    "DOUBLE",
    "CHAR",
    "BIG_INT",
    "BIG_DEC",
    "SQL_DATE",
    "SQL_TIME",
    "SQL_TIMESTAMP",
]
_WRAPPED = {
    "Types.TUPLE([{}])": "({},)",
    "Types.ROW([{}])": "Row({})",
    "Types.ROW_NAMED(['a'], [{}])": "Row(a={})",
    "Types.LIST({})": "[{}]",
    "Types.MAP(Types.STRING(), {})": "{{'k': {}}}",
    "Types.MAP({}, Types.STRING())": "{{{}: 'v'}}",
    "Types.BASIC_ARRAY({})": "[{}]",
    "Types.OBJECT_ARRAY({})": "[{}]",
    "Types.PRIMITIVE_ARRAY({})": "[{}]",
    "Types.TUPLE([Types.LIST({})])": "([{}],)",
    "Types.LIST(Types.TUPLE([{}]))": "[({},)]",
    "Types.MAP(Types.STRING(), Types.LIST({}))": "{{'k': [{}]}}",
    "Types.ROW([Types.ROW([{}])])": "Row(Row({}))",
}
_PRIMITIVE = ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR")
_BASIC_ARRAYS = (*_PRIMITIVE, "STRING")
_INNER_VALUES = [
    one for one in VALUES[:36] if one not in ("-1", "127", "-0.0", "1e300", "float('inf')", "''", "bytearray(b'ab')")
]
_COLLECTIONS = [
    "Types.TUPLE([Types.STRING(), Types.LONG()])",
    "Types.ROW([Types.STRING(), Types.LONG()])",
    "Types.ROW_NAMED(['a', 'b'], [Types.STRING(), Types.LONG()])",
    "Types.LIST(Types.LONG())",
    "Types.MAP(Types.STRING(), Types.LONG())",
    "Types.BASIC_ARRAY(Types.LONG())",
    "Types.OBJECT_ARRAY(Types.LONG())",
    "Types.PRIMITIVE_ARRAY(Types.LONG())",
    "Types.PRIMITIVE_ARRAY(Types.BYTE())",
]


def pairs() -> dict[str, list[str]]:
    """The values by their type."""
    found = {f"Types.{name}()": list(VALUES) for name in SCALARS}
    found |= {name: list(VALUES) for name in _COLLECTIONS}
    for outer, value in _WRAPPED.items():
        for name in _INNER:
            if ("BASIC_ARRAY" in outer and name not in _BASIC_ARRAYS) or (
                "PRIMITIVE_ARRAY" in outer and name not in _PRIMITIVE
            ):
                continue
            inner = [one for one in _INNER_VALUES if not (value.startswith("{{{}") and one in ("[]", "b''"))]
            found[outer.format(f"Types.{name}()")] = [value.format(one) for one in inner]
    return found


def evaluated(expression: str, root: str) -> Any:
    """``root``: ``pyflink`` or ``tidegate``."""
    common = importlib.import_module(f"{root}.common")
    names = {name: getattr(common, name) for name in ("Types", "Row")}
    names["Instant"] = importlib.import_module(f"{root}.common.time").Instant
    names |= {"Decimal": decimal.Decimal}
    names |= {name: getattr(datetime, name) for name in ("date", "time", "datetime")}
    return eval(expression, names)
