"""Keys go where Kafka's own partitioner sends them."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from tidegate.connectors.kafka.columnar.partitioning import partitions


def expected(keys: list[bytes | None], count: int, sticky: int) -> list[int]:
    return [sticky if key is None else (murmur2(key) & 0x7FFFFFFF) % count for key in keys]


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(1, 100), st.integers(0, 5))
def test_partitions_are_those_of_murmur2(keys: list[bytes | None], count: int, start: int) -> None:
    array = pa.array(keys, pa.binary()).slice(start)
    found = partitions(array, count, 77)
    assert found.dtype == "int32"
    assert found.tolist() == expected(keys[start:], count, 77)


def test_values_that_java_has() -> None:
    """From ``UtilsTest.testMurmur2`` of Apache Kafka."""
    known = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    }
    found = partitions(pa.array(list(known), pa.binary()), 1 << 30, 0)
    assert found.tolist() == [(value & 0x7FFFFFFF) % (1 << 30) for value in known.values()]
