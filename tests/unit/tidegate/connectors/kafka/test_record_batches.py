"""Record batches by column are what kafka-python reads and writes record by record; broken ones are refused in one sentence."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from tidegate.connectors.kafka.record_batches import (
    Aborted,
    Columns,
    Producer,
    compression,
    cut,
    decode,
    encode,
    reading,
    record_starts,
)
from tidegate.model.errors import CorruptData

Record = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp, key, value."""
NOW = 1_700_000_000_000
ABORT, COMMIT = 0, 1
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(scope="module", autouse=True, params=[0, 4096], ids=["search", "walk"])
def records_are_found(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways: of little data nothing but the walk would be tried."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_starts, "_LITTLE_BYTES", request.param)
        yield


def batch(
    records: Sequence[Record],
    *,
    headers: Sequence[tuple[str, bytes]] = (),
    producer_id: int = -1,
    codec: int = 0,
) -> bytes:
    """As kafka-python writes it."""
    base = records[0][0]
    builder = DefaultRecordBatchBuilder(
        2, codec, int(producer_id >= 0), producer_id, 0 if producer_id >= 0 else -1, 0, 1 << 30
    )
    for offset, timestamp, key, value in records:
        assert builder.append(offset - base, timestamp, key, value, list(headers)) is not None
    content = bytearray(builder.build())
    content[:8] = struct.pack(">q", base)
    return bytes(content)


def control(offset: int, producer_id: int, kind: int) -> bytes:
    return changed(batch([(offset, NOW, struct.pack(">hh", 0, kind), b"\0" * 6)], producer_id=producer_id), 22, 0x30)


def changed(content: bytes, at: int, *new: int) -> bytes:
    """With other bytes at that place and the checksum that belongs to them."""
    other = bytearray(content)
    other[at : at + len(new)] = bytes(new)
    other[17:21] = struct.pack(">I", google_crc32c.value(bytes(other[21:])))
    return bytes(other)


def repacked(content: bytes, number: int, records: bytes) -> bytes:
    """The same header over records that were compressed otherwise."""
    other = content[:8] + struct.pack(">i", 49 + len(records)) + content[12:61] + records
    return changed(other, 22, content[22] | number)


def rows(columns: Columns | None) -> list[Record]:
    if columns is None:
        return []
    keys = columns.keys.to_pylist() if columns.keys is not None else [None] * len(columns.values)
    assert columns.values.type == pa.binary()
    columns.values.validate(full=True)
    return list(
        zip(columns.offsets.tolist(), columns.timestamps.tolist(), keys, columns.values.to_pylist(), strict=True)
    )


def read(
    content: bytes, from_offset: int = 0, *aborted: Aborted, committed_only: bool = True
) -> tuple[list[Record], int]:
    columns, following = decode(content, from_offset, aborted, committed_only=committed_only, with_keys=True)
    return rows(columns), following


def written(
    records: Sequence[tuple[int | None, bytes | None, bytes | None]], codec: str = "none", **other: Any
) -> bytes:
    times, keys, values = zip(*records, strict=True)
    arrays = pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(times, pa.int64())
    return bytes(encode(*arrays, Producer(4711, 3), 17, codec, NOW, **other))


def is_refused(content: bytes) -> bool:
    """Anything but ``CorruptData`` comes out."""
    try:
        read(content)
    except CorruptData:
        return True
    return False


def numbered(*offsets: int) -> list[Record]:
    return [(n, NOW, None, b"%d" % n) for n in offsets]


def many(count: int, seed: int = 1) -> list[Record]:
    chance = random.Random(seed)
    return [
        (
            100 + n,
            NOW + chance.randrange(-5, 300),
            b"%d" % n if n % 3 else None,
            chance.randbytes(chance.randrange(200)),
        )
        for n in range(count)
    ]


RECORDS = st.lists(
    st.tuples(
        st.integers(1, 300),
        st.integers(-1, 1 << 45),
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=100) | st.sampled_from([b"", b"\0" * 9000, b"x" * 64]),
    ),
    min_size=1,
    max_size=60,
)


@given(RECORDS, st.booleans(), st.integers(0, 2000))
def test_what_kafka_python_writes_is_read(given: list[Any], with_headers: bool, from_offset: int) -> None:
    records, offset = [], 0
    for step, *rest in given:
        records.append((offset, *rest))
        offset += step
    headers = [("a", b"\0" * 5), ("b", b"")] if with_headers else []
    content = batch(records, headers=headers)
    expected = [record for record in records if record[0] >= from_offset]
    assert read(content, from_offset) == (expected, max(records[-1][0] + 1, from_offset))


@pytest.mark.parametrize("headers", [[], [("h", b"12")]])
@pytest.mark.parametrize("size", [0, 10, 50, 100, 9000])
def test_records_of_one_size_are_read(size: int, headers: list[tuple[str, bytes]]) -> None:
    records = [(n, NOW + n // 7, None, bytes([n % 251]) * size) for n in range(9000 if size <= 100 else 50)]
    assert read(batch(records, headers=headers)) == (records, len(records))


def test_sizes_that_change_in_runs_and_bytes_that_look_like_records_are_read() -> None:
    looks_like_one = b"\0\x10\0\0\0\0\0\0\0" * 5
    values = [*[b"a" * 30] * 70, *[looks_like_one] * 90, b"x", *[b"b" * 500] * 300, *[looks_like_one, b"c"] * 100]
    records = [(n, NOW, b"", value) for n, value in enumerate(values)]
    assert read(batch(records)) == (records, len(records))


def test_several_batches_with_holes_are_one_and_a_cut_off_one_is_left_out() -> None:
    parts = [many(50)[10:20], many(90)[30:31], many(900)[90:]]
    whole = b"".join(batch(part) for part in parts)
    everything = [record for part in parts for record in part]
    assert read(whole) == (everything, 1000)
    for end in (0, 5, 16, 17, 60, 61, len(whole) - 1):
        found, following = read(whole[:end])
        assert (found, following) == (([], 0) if end < 100 else (everything[:11], 131))
    columns, _ = decode(memoryview(whole), 135, [], committed_only=False, with_keys=False)
    assert columns is not None
    assert columns.keys is None
    assert columns.offsets.tolist() == list(range(190, 1000))


def test_a_batch_before_the_offset_is_left_out_and_the_offset_goes_on() -> None:
    content = batch(many(10)) + batch(many(20)[10:])
    assert read(content, 105)[0] == many(20)[5:]
    assert read(content, 110)[0] == many(20)[10:]
    assert read(content, 120) == ([], 120)


def test_the_time_of_the_log_is_everybodys_time() -> None:
    content = changed(batch(many(10)), 22, 0x08)
    assert {time for _, time, _, _ in read(content)[0]} == {max(time for _, time, _, _ in many(10))}


def test_a_batch_that_compaction_emptied_only_moves_the_offset() -> None:
    empty = batch(many(3))[:61]
    content = changed(empty[:8] + struct.pack(">i", 49) + empty[12:57] + bytes(4), 22, 0)
    assert read(content + batch(many(5)[3:])) == (many(5)[3:], 105)
    assert read(content) == ([], 103)


def test_aborted_transactions_are_left_out_by_their_producer_until_its_marker() -> None:
    content = b"".join(
        [
            batch(numbered(0, 1), producer_id=7),
            batch(numbered(2), producer_id=8),
            batch(numbered(3)),
            control(4, 7, ABORT),
            batch(numbered(5), producer_id=7),
            control(6, 8, COMMIT),
            control(7, 7, COMMIT),
            batch(numbered(8), producer_id=8),
            batch(numbered(9), producer_id=7),
            control(10, 8, ABORT),
        ]
    )
    aborted = [Aborted(8, 8), Aborted(7, 0)]
    assert [offset for offset, *_ in read(content, 0, *aborted)[0]] == [2, 3, 5, 9]
    assert [offset for offset, *_ in read(content, 3, *aborted)[0]] == [3, 5, 9]
    assert [offset for offset, *_ in read(content, 0, *aborted, committed_only=False)[0]] == [0, 1, 2, 3, 5, 8, 9]
    assert read(content, 0, *aborted)[1] == 11
    assert read(control(4, 7, ABORT), 0) == ([], 5)


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-1, 1 << 45),
            st.none() | st.binary(max_size=20),
            st.none() | st.binary(max_size=200),
        ),
        min_size=1,
        max_size=80,
    ),
    st.sampled_from(CODECS),
)
def test_what_is_written_is_what_kafka_python_and_this_read(records: list[Any], codec: str) -> None:
    content = written(records, codec)
    expected = [(n, NOW if time is None else time, key, value) for n, (time, key, value) in enumerate(records)]
    assert read(content) == (expected, len(records))
    if codec in ("none", "gzip"):
        found = MemoryRecords(content).next_batch()
        assert found.validate_crc()
        assert [(each.offset, each.timestamp, each.key, each.value) for each in found] == expected
        assert found.is_transactional
        assert not found.is_control_batch
        assert (found.producer_id, found.producer_epoch, found.base_sequence) == (4711, 3, 17)
        assert (found.first_timestamp, found.max_timestamp) == (expected[0][1], max(time for _, time, _, _ in expected))
        assert (found.base_offset, found.last_offset_delta) == (0, len(records) - 1)


@pytest.mark.parametrize("keyed", [False, True])
def test_bytes_are_those_of_kafka_python(keyed: bool) -> None:
    records = [(NOW + n % 90, b"k%d" % n if keyed else None, b"v" * (n % 300)) for n in range(9000)]
    builder = DefaultRecordBatchBuilder(2, 0, 1, 4711, 3, 17, 1 << 30)
    for n, (time, key, value) in enumerate(records):
        builder.append(n, time, key, value, [])
    theirs = bytearray(builder.build())
    theirs[12:16] = b"\xff" * 4  # it says 0 as the leader's epoch, which is only for brokers
    assert written(records) == bytes(theirs)


def test_slices_are_written_as_their_rows() -> None:
    keys, values = pa.array([b"a", None, b"", b"b"], pa.binary()), pa.array([b"1", b"2", None, b"4"], pa.binary())
    times = pa.array([1, 2, None, 4], pa.int64())
    content = encode(keys[1:3], values[1:3], times[1:3], Producer(1, 1), 0, "none", NOW)
    assert read(bytes(content))[0] == [(0, 2, None, b"2"), (1, NOW, b"", None)]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_and_plain_batches_are_read_together(codec: str) -> None:
    large = [(NOW, None, bytes([n % 256]) * 1000) for n in range(300)]
    first = written(large, codec)
    second = batch([(300 + n, NOW, b"k", b"v") for n in range(5)])
    found, following = read(
        first + second + changed(written(large, codec), 22, 0x10 | compression.NUMBERS[codec])[:100]
    )
    assert [value for *_, value in found] == [value for *_, value in large] + [b"v"] * 5
    assert following == 305


def test_snappy_is_read_raw_and_framed() -> None:
    plain = batch(many(100))
    raw = pa.Codec("snappy").compress(plain[61:], asbytes=True)
    assert read(repacked(plain, 2, raw))[0] == many(100)
    framed = compression.compress("snappy", pa.py_buffer(plain[61:]))
    assert framed.startswith(b"\x82SNAPPY\0")
    assert read(repacked(plain, 2, framed))[0] == many(100)


def test_lz4_frames_have_independent_blocks_and_keep_what_does_not_shrink() -> None:
    content = random.Random(1).randbytes(100_000) + b"x" * 100_000
    frame = compression.compress("lz4", pa.py_buffer(content))
    assert frame[4] & 0x20, "brokers refuse linked blocks"
    assert pa.CompressedInputStream(pa.py_buffer(frame), "lz4").read() == content


def test_pieces_fit_and_are_no_smaller_than_they_must() -> None:
    values = pa.array([random.Random(n).randbytes(n % 150) if n % 7 else None for n in range(3000)], pa.binary())
    keys = pa.array([b"k" * (n % 9) if n % 5 else None for n in range(3000)], pa.binary())
    times = pa.array([NOW * (n % 2) for n in range(3000)], pa.int64())
    for limit in (200, 1000, 100_000, 1 << 30):
        pieces = list(cut(keys, values, limit))
        assert [start for start, _ in pieces] == np.cumsum([0, *(length for _, length in pieces)])[:-1].tolist()
        assert sum(length for _, length in pieces) == 3000
        sizes = [
            len(encode(keys[s : s + n], values[s : s + n], times[s : s + n], Producer(1, 1), 0, "none", 0))
            for s, n in pieces
        ]
        assert all(size <= limit or length == 1 for size, (_, length) in zip(sizes, pieces, strict=True))
        assert all(size > limit * 0.6 for size in sizes[:-1] if limit > 10_000)
    assert list(cut(keys, values, 1)) == [(n, 1) for n in range(3000)]
    assert list(cut(keys[:0], values[:0], 100)) == []


def test_an_answer_that_would_grow_too_large_ends_before_the_batch_that_is_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = batch(many(100)[:50]) + batch(many(100)[50:])
    monkeypatch.setattr(reading, "LIMIT_BYTES", 6000)
    assert read(content) == (many(100)[:50], 150)
    assert read(content[len(batch(many(50))) :], 150) == (many(100)[50:], 200)


def test_old_message_formats_are_refused_by_name() -> None:
    builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    builder.append(0, timestamp=NOW, key=None, value=b"v")
    with pytest.raises(CorruptData, match="offset 0 has message format 1"):
        read(bytes(builder.build()))


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (batch(many(3))[:-1] + b"\x07", "CRC-32C"),
        (changed(batch(many(3)), 57, 0, 0, 0, 2), "2 records end .* bytes before the end"),
        (changed(batch(many(3)), 57, 0, 0, 0, 4), "4 records up to 2"),
        (changed(batch(many(3)), 57, 0x80, 0, 0, 4), "records up to"),
        (changed(batch(numbered(0, 1)), 72, 0x00), "offset 0 to 1 have records out of order"),
        (changed(batch(numbered(0, 1)), 72, 0x04), "offset 0 to 1 have records out of order"),
        (changed(batch(many(3)), 23, 0, 0, 0, 1), "3 records up to 1"),
        (changed(batch(many(3)), 61, 0x01), "the negative length -1"),
        (changed(batch(many(3)), 61, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF), "the length of a record is cut off"),
        (changed(batch([(0, 0, None, b"v")]), 65, 0x05), "record 0 of the record batch at offset 0 does not have the fields"),
        (changed(batch([(0, 0, None, b"v")]), 66, 0x40), "does not have the fields"),
        (changed(batch([(0, 0, None, b"v" * 20)]), 63, *[0xFF] * 11), "does not have the fields"),
        (changed(batch(many(3)), 22, 0x01), "offset 100 do not decompress: the data is not gzip"),
        (changed(batch(many(3)), 22, 0x02), "do not decompress"),
        (changed(batch(many(3)), 22, 0x03), "do not decompress: the data is not lz4"),
        (changed(batch(many(3)), 22, 0x04), "do not decompress: the data is not zstd"),
        (changed(batch(many(3)), 22, 0x07), "the unknown compression 7"),
        (batch(many(3))[:8] + b"\xff" * 4 + batch(many(3))[12:], "the invalid length -1"),
        (repacked(batch(many(3)), 2, b"\x82SNAPPY\0" + bytes(8) + b"\0\0\1\0"), "cut off"),
        (repacked(batch(many(3)), 2, b"\xff\xff\xff\xff\x0f\0"), "the snappy header claims"),
    ],
)  # fmt: skip
def test_what_is_broken_is_said(broken: bytes, said: str) -> None:
    with pytest.raises(CorruptData, match=said):
        read(broken)


@pytest.mark.parametrize("codec", CODECS)
def test_no_bytes_do_worse_than_corrupt_data(codec: str) -> None:
    chance = random.Random(4)
    whole = written([(time, key, value) for _, time, key, value in many(40)], codec)
    refused = 0
    for _ in range(400):
        at, size = chance.choice([chance.randrange(21, 61), chance.randrange(61, len(whole))]), chance.randrange(1, 5)
        broken = changed(whole, at, *chance.randbytes(size)[: len(whole) - at])
        refused += is_refused(broken)
    assert refused > 30


@given(st.binary(max_size=300))
def test_bytes_of_any_kind_are_refused_or_nothing(content: bytes) -> None:
    header = batch(many(1))[:61]
    made = changed(
        header[:8] + struct.pack(">i", 49 + len(content)) + header[12:57] + struct.pack(">i", 1) + content, 21, 0
    )
    is_refused(content)
    is_refused(made)
