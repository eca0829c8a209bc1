"""What Flink's JSON format reads from values of every type: cases, and how they are recorded.

    python -m tests.contract.formats.json_values      records them anew, with a Flink from the package index

Flink's Python runs this file, too, and prints what ``JsonRowDeserializationSchema`` gives for each case.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent / "flink_2.3_json_values.json"
ERROR = "error"
CASES: dict[str, list[str]] = {
    "STRING()": ['"a"', "5", "1.5", "true", "null", '{"a":[1,null,"b"]}', "[1,2.5]", '"\\u00e9"', "1e3", '""'],
    "BYTE()": ["5", '"5"', "200"],
    "SHORT()": ["5", '"5"', "40000"],
    "INT()": ["5", '"5"', '" 7 "', "5.0", "5.7", "null", "true", '"x"', "3000000000", "-0", "1e2", '""'],
    "LONG()": ["5", '"-5"', "9223372036854775807", "9223372036854775808", "5.0"],
    "FLOAT()": ["5", '"5"', "1.5", '"NaN"'],
    "DOUBLE()": ["5", '"5"', "1.5", '"NaN"', '"Infinity"', "1e400", "null", '"1e3"', "123456789012345678901", '"x"'],
    "BOOLEAN()": ["true", '"true"', '"TRUE"', '"false"', '"x"', "1", "0", "null"],
    "BIG_INT()": ["5", '"5"', "12345678901234567890123"],
    "BIG_DEC()": ["5", '"5.25"', "12.5", "1e3", "123456789.123456789", '"x"'],
    "SQL_DATE()": ['"2024-02-29"', '"2024-2-9"', "5", "null"],
    "SQL_TIME()": ['"12:34:56Z"', "null", '"x"'],
    "SQL_TIMESTAMP()": ['"2024-02-29T12:34:56Z"', '"2024-02-29T12:34:56.789Z"', '"1969-12-31T23:59:59.5Z"', "null", '"x"'],
    "INSTANT()": ['"2024-02-29T12:34:56Z"', '"2024-02-29T12:34:56.789Z"', "1700000000", "null"],
    "PRIMITIVE_ARRAY(Types.BYTE())": ['"/w=="', '"YWJj"', '""', "null", '"not base64!"'],
    "PRIMITIVE_ARRAY(Types.INT())": ["[1,2]", "[]", "null", '["3"]'],
    "BASIC_ARRAY(Types.STRING())": ['["a",1,null]', "[]", "null"],
    "LIST(Types.STRING())": ['["a"]'],
    "OBJECT_ARRAY(Types.ROW_NAMED(['x'], [Types.INT()]))": ['[{"x":1},null]', "[]"],
    "MAP(Types.STRING(), Types.INT())": ['{"a":1,"b":"2"}', "{}", "null", '{"a":null}'],
    "ROW_NAMED(['x', 'y'], [Types.INT(), Types.STRING()])": ['{"x":1,"y":2}', '{"y":"z"}', "null", "{}", '{"x":1,"more":[1]}'],
    "ROW_NAMED(['d', 'b'], [Types.SQL_DATE(), Types.PRIMITIVE_ARRAY(Types.BYTE())])": ['{"d":"2024-01-01","b":"/w=="}'],
}  # fmt: skip
"""By the type of the field ``v``: what stands there."""


def message(value: str) -> bytes:
    return f'{{"i":1,"v":{value}}}'.encode()


def _given_by_flink() -> list[list[str]]:
    types: Any = importlib.import_module("pyflink.common").Types
    formats: Any = importlib.import_module("pyflink.datastream.formats.json")
    errors: Any = importlib.import_module("py4j.protocol")
    found = []
    for kind, values in CASES.items():
        wanted = types.ROW_NAMED(["i", "v"], [types.INT(), eval(f"types.{kind.replace('Types', 'types')}")])
        schema = formats.JsonRowDeserializationSchema.builder().type_info(wanted).build()._j_deserialization_schema
        schema.open(None)
        for value in values:
            try:
                given = _told(schema.deserialize(message(value)).getField(1))
            except errors.Py4JJavaError:
                given = ERROR
            found.append([kind, value, given])
    return found


def _told(value: Any) -> str:
    """As Java shows it; what came as a value of Python, as ``repr`` does."""
    if type(value).__name__ == "JavaArray":
        return f"[{', '.join(map(_told, value))}]"
    return str(value.toString()) if hasattr(value, "toString") else repr(value)


def record() -> str:
    """Returns the vectors that Flink gives now."""
    from tests.servers.flink_environment import flink_environment

    done = flink_environment().run(str(Path(__file__)), "flink")
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return "[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["flink"]:
        print(json.dumps(_given_by_flink()))
    else:
        VECTORS.write_text(record(), encoding="utf-8")
