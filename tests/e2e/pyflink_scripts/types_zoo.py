import datetime
import decimal

from pyflink.common import Instant, Row, Types
from pyflink.datastream import StreamExecutionEnvironment

TYPES = {
    "string": (Types.STRING(), ["", "ä€😀", "a,b"]),
    "boolean": (Types.BOOLEAN(), [True, False]),
    "byte": (Types.BYTE(), [-128, 127]),
    "short": (Types.SHORT(), [-32768, 32767]),
    "int": (Types.INT(), [-(2**31), 2**31 - 1]),
    "long": (Types.LONG(), [-(2**63), 2**63 - 1]),
    "float": (Types.FLOAT(), [0.5, -1.25, float("inf")]),
    "double": (Types.DOUBLE(), [0.1, 1e300, -0.0]),
    "big int": (Types.BIG_INT(), [10**30, -(10**30)]),
    "big dec": (
        Types.BIG_DEC(),
        [decimal.Decimal("12345.678901234567890000"), decimal.Decimal("-0.500000000000000000")],
    ),
    "date": (Types.SQL_DATE(), [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)]),
    "time": (Types.SQL_TIME(), [datetime.time(23, 59, 59), datetime.time(0, 0)]),
    "timestamp": (Types.SQL_TIMESTAMP(), [datetime.datetime(2024, 2, 29, 12, 30, 1, 250000)]),
    "instant": (Types.INSTANT(), [Instant.of_epoch_milli(1_700_000_000_123), Instant.of_epoch_milli(0)]),
    "list": (Types.LIST(Types.INT()), [[], [1, 2]]),
    "map": (Types.MAP(Types.STRING(), Types.DOUBLE()), [{}, {"a": 1.5}]),
    "primitive array": (Types.PRIMITIVE_ARRAY(Types.INT()), [[1, 2, 3]]),
    "basic array": (Types.BASIC_ARRAY(Types.STRING()), [["a", "b"]]),
    "object array": (Types.OBJECT_ARRAY(Types.ROW([Types.INT()])), [[Row(1), Row(2)]]),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"\x00\xffz"]),
    "tuple": (Types.TUPLE([Types.INT(), Types.TUPLE([Types.STRING(), Types.BOOLEAN()])]), [(1, ("a", True))]),
    "row": (Types.ROW([Types.INT(), Types.STRING()]), [Row(1, None), Row(None, "b")]),
    "named row": (
        Types.ROW_NAMED(["x", "inner"], [Types.INT(), Types.ROW_NAMED(["y"], [Types.STRING()])]),
        [Row(x=1, inner=Row(y="deep")), Row(x=None, inner=None)],
    ),
    "pickled": (Types.PICKLED_BYTE_ARRAY(), [{"k": {1, 2}}, complex(1, 2), None]),
}


def shown(value):
    if isinstance(value, Row):
        return f"Row({', '.join(shown(part) for part in value)})"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}[{', '.join(map(shown, value))}]"
    if isinstance(value, Instant):
        return f"Instant {value.to_epoch_milli()}"
    return f"{type(value).__name__} {value!r}"


def made(env, kind, values):
    return env.from_collection(list(range(len(values))), type_info=Types.INT()).map(
        lambda index: values[index], output_type=kind
    )


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    streams = []
    for name, (kind, values) in TYPES.items():
        stream = made(env, kind, values)
        # As a function sees it, behind a network of processes.
        seen = stream.map(lambda value, name=name: f"{name}: {shown(value)}", output_type=Types.STRING())
        streams.append(seen)
    streams[0].union(*streams[1:]).print()
    env.execute("seen by functions")

    for name in ("string", "boolean", "int", "long", "double", "list", "tuple", "row", "named row", "date", "pickled"):
        kind, values = TYPES[name]
        made(env, kind, values).print(name)
    env.execute("as they are printed")

    for name in ("string", "double", "boolean", "int", "list", "date", "time", "primitive array", "map", "tuple"):
        kind, values = TYPES[name]
        stream = made(env, kind, values)
        print(f"collected {name}:", [shown(value) for value in stream.execute_and_collect()])


if __name__ == "__main__":
    main()
