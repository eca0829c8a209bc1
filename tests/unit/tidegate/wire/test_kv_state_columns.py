"""Keys and values of queryable state come from other processes: what cannot be read, or may unpack to any size, is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.model.errors import CorruptFrame
from tidegate.wire.kv_state_columns import keys_of, values_of, write_keys, write_values

KEYS = pa.array(["a", "b"])


def stream(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("keys", [KEYS, KEYS.dictionary_encode(), pa.array([1, None]), pa.array([[1], []])])
def test_they_come_back_as_they_were(keys: pa.Array) -> None:
    assert keys_of(write_keys(keys, pa.field("key", keys.type))).equals(keys)
    values = values_of(write_values([0, 1], keys, pa.field("value", keys.type)))
    assert values.column(1).equals(keys)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("keys", [KEYS, pa.array(["x" * 1000]).dictionary_encode()])
def test_what_is_compressed_is_refused(keys: pa.Array, compression: str) -> None:
    content = stream(pa.RecordBatch.from_arrays([keys], ["key"]), compression)
    with pytest.raises(CorruptFrame, match="are compressed, which is not allowed"):
        keys_of(content)


def test_a_small_question_does_not_become_large() -> None:
    content = stream(pa.RecordBatch.from_arrays([pa.nulls(1 << 22, pa.int64())], ["key"]), "zstd")
    assert len(content) < 1 << 16
    before = pa.total_allocated_bytes()
    with pytest.raises(CorruptFrame):
        keys_of(content)
    assert pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.parametrize(
    "content", [b"", b"no stream", stream(pa.record_batch({"other": [1]})), stream(pa.record_batch({"key": [1]}))[:90]]
)
def test_what_is_none_of_them(content: bytes) -> None:
    with pytest.raises(CorruptFrame, match="keys or values of queryable state"):
        keys_of(content)


def test_names_that_are_no_text() -> None:
    content = stream(pa.record_batch({"key": [1]})).replace(b"key\0", b"k\x80y\0")
    with pytest.raises(CorruptFrame, match="cannot be read"):
        keys_of(content)
