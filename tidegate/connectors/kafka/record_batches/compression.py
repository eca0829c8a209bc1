"""The codecs of Kafka's record batches, on Arrow's, with the two differences of Java's.

LZ4 frames are made here, of independent blocks: Kafka's brokers refuse linked ones, which Arrow writes. Snappy comes raw
(librdkafka) or in the framing of snappy-java, which is also what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

import pyarrow as pa

NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""The codecs' numbers in a batch's attributes."""
_NAMES = {number: name for name, number in NUMBERS.items()}

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_CHUNK = Struct(">i")
_SNAPPY_CHUNK_BYTES = 64 << 10
_SNAPPY_MOST = 64
"""The most bytes that one element of snappy's format can expand to; a larger claim is refused before anything is allocated."""

_LZ4_HEADER = bytes.fromhex("04224d18604082")
"""The header of an LZ4 frame: magic, version 1 with independent blocks, blocks of 64 KiB, checksum of these two."""
_LZ4_BLOCK = Struct("<I")
_LZ4_BLOCK_BYTES = 64 << 10
"""The block size that Kafka's Java client writes."""
_LZ4_STORED = 1 << 31
"""The highest bit of a block's length marks a block that is not compressed (LZ4's frame format)."""

_READ_BYTES = 4 << 20
"""How many bytes are decompressed at once: bounds what is held twice."""


class Undecodable(Exception):
    """The bytes are not valid for their codec; the message says why."""


def decompress(number: int, content: pa.Buffer, limit_bytes: int) -> bytes:
    """Decompresses the records of a batch by the codec ``number`` of its attributes. Raises ``Undecodable``, also for more than ``limit_bytes``."""
    name = _NAMES.get(number)
    if name is None or name == "none":
        raise Undecodable(f"the record batch names the unknown compression {number}")
    pieces: list[bytes | pa.Buffer] = []
    size_bytes = 0
    try:
        for piece in _unsnapped(content) if name == "snappy" else _stream(name, content):
            pieces.append(piece)
            size_bytes += len(piece)
            if size_bytes > limit_bytes:
                raise Undecodable(f"{name} data unpacks to more than {limit_bytes} bytes")
    except (pa.ArrowException, OSError) as error:
        raise Undecodable(f"the data is not {name}: {error}") from error
    return b"".join(pieces)


def compress(name: str, content: pa.Buffer) -> bytes:
    """Compresses records with the codec ``name`` (not ``none``)."""
    return _WRITERS[name](content)


def _stream(name: str, content: pa.Buffer) -> Iterator[bytes]:
    with pa.CompressedInputStream(pa.BufferReader(content), name) as stream:
        while piece := stream.read(_READ_BYTES):
            yield piece


def _unsnapped(content: pa.Buffer) -> Iterator[pa.Buffer]:
    view = memoryview(content).cast("B")  # Arrow calls its bytes signed
    if view[: len(_XERIAL)] != _XERIAL:
        yield _raw_snappy(content)
        return
    at = len(_XERIAL_HEADER)
    while at < len(view):
        size_bytes = _CHUNK.unpack_from(view, at)[0] if at + _CHUNK.size <= len(view) else -1
        at += _CHUNK.size
        if size_bytes < 0 or at + size_bytes > len(view):
            raise Undecodable("a chunk of snappy is cut off")
        yield _raw_snappy(content.slice(at, size_bytes))
        at += size_bytes


def _raw_snappy(content: pa.Buffer) -> pa.Buffer:
    size_bytes = 0
    for index, byte in enumerate(memoryview(content).cast("B")[:5]):
        size_bytes |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            break
    if size_bytes > _SNAPPY_MOST * len(content):
        raise Undecodable(f"the snappy header claims {size_bytes} bytes for {len(content)} compressed bytes")
    return pa.Codec("snappy").decompress(content, decompressed_size=size_bytes)


def _gzip(content: pa.Buffer) -> bytes:
    return bytes(pa.Codec("gzip").compress(content))


def _zstd(content: pa.Buffer) -> bytes:
    return bytes(pa.Codec("zstd").compress(content))


def _snappy(content: pa.Buffer) -> bytes:
    codec, pieces = pa.Codec("snappy"), [_XERIAL_HEADER]
    for start in range(0, len(content), _SNAPPY_CHUNK_BYTES):
        packed = codec.compress(content.slice(start, min(_SNAPPY_CHUNK_BYTES, len(content) - start)))
        pieces += [_CHUNK.pack(len(packed)), packed]
    return b"".join(pieces)


def _lz4(content: pa.Buffer) -> bytes:
    codec, pieces = pa.Codec("lz4_raw"), [_LZ4_HEADER]
    for start in range(0, len(content), _LZ4_BLOCK_BYTES):
        plain = content.slice(start, min(_LZ4_BLOCK_BYTES, len(content) - start))
        packed = codec.compress(plain)
        if len(packed) < len(plain):
            pieces += [_LZ4_BLOCK.pack(len(packed)), packed]
        else:
            pieces += [_LZ4_BLOCK.pack(len(plain) | _LZ4_STORED), plain]
    return b"".join([*pieces, _LZ4_BLOCK.pack(0)])


_WRITERS: dict[str, Callable[[pa.Buffer], bytes]] = {"gzip": _gzip, "snappy": _snappy, "lz4": _lz4, "zstd": _zstd}
