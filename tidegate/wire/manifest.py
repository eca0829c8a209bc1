"""Encodes and decodes ``_metadata``, the manifest of a checkpoint (``CheckpointManifest``).

JSON lines, so that ``head``, ``jq``, DuckDB and Spark read it without us (docs/state-format.md):

    line 1   {"format":"tidegate-checkpoint","version":1,"size_bytes":<of all further lines>,"xxh3_64":"<16 hex digits>"}
    line 2   the checkpoint: job, id, time, type, generation, properties, the number of operators, and the edges with data in flight
    line 3.. one operator each: its subtasks with their handles; inline state is base64

Laws: line 1 has this form in every version, byte for byte; its checksum covers format, version, size and all further
lines, and is verified before anything is read. So a damaged file is ``CorruptData``, and only an intact one of another
version is ``VersionMismatch``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
import xxhash

from tidegate.model.checkpoint import (
    READABLE_MANIFEST_VERSIONS,
    ChannelStateHandle,
    CheckpointManifest,
    InFlightEdge,
    OperatorSnapshot,
    OperatorState,
    SegmentHandle,
    SnapshotType,
)
from tidegate.model.coordinators.operator_events import CoordinatorState
from tidegate.model.errors import ON_DAMAGE, CorruptData, VersionMismatch
from tidegate.model.ids import CheckpointId, JobId
from tidegate.wire.unreadable import UNREADABLE

METADATA_FILE = "_metadata"
FORMAT = "tidegate-checkpoint"

_HEADER = re.compile(
    rb'\{"format":"tidegate-checkpoint","version":(0|[1-9]\d{0,8}),"size_bytes":(0|[1-9]\d{0,17}),"xxh3_64":"([0-9a-f]{16})"\}\n'
)
_HEADER_MAX_BYTES = 160
"""The most bytes of the first line that `_HEADER` matches."""

SIGNATURE = "hmac_sha256"
"""The property with a manifest's signature. It covers format and version, and everything after line 1 with zeros in place of the signature."""
_NO_SIGNATURE = "0" * 64
_SIGNED = re.compile(rb'"hmac_sha256":"([0-9a-f]{64})"')
Sign = Callable[[Iterable[bytes]], str]
"""Signs pieces of bytes; returns 64 hex digits."""

_T = TypeVar("_T")


class _Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    job_id: str
    job_name: str
    checkpoint_id: int
    timestamp_ms: int
    snapshot_type: SnapshotType
    generation: str
    properties: dict[str, str]
    operators: int
    edges: tuple[InFlightEdge, ...] = ()


class _Operator(msgspec.Struct, frozen=True):
    """An ``OperatorState`` without coordinator state, with its fields in this order and subtasks by number. Encoded directly, since a conversion to
    plain values takes five times as long, and there may be ten thousand subtasks."""

    operator_id: str
    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    finished: list[int]
    subtasks: dict[int, OperatorSnapshot]

    @staticmethod
    def of(state: OperatorState) -> _Operator:
        return _Operator(
            state.operator_id,
            state.uid,
            state.name,
            state.parallelism,
            state.max_parallelism,
            sorted(state.finished),
            dict(sorted(state.subtasks.items())),
        )


class _Coordinated(_Operator, frozen=True):
    """An ``OperatorState`` with coordinator state."""

    coordinator: CoordinatorState


def manifest_to_parts(manifest: CheckpointManifest, sign: Sign | None = None) -> list[bytes]:
    """Encodes a manifest as the content of ``_metadata``, in pieces to be written one after the other: they may be tens of megabytes, which should not
    be held twice. Equal manifests have equal bytes. The manifest's own signature is left out, since it is that of its file."""
    head = _Checkpoint(
        manifest.job_id,
        manifest.job_name,
        manifest.checkpoint_id,
        manifest.timestamp_ms,
        manifest.snapshot_type,
        manifest.generation,
        _properties(manifest.properties, is_signed=sign is not None),
        len(manifest.operators),
        manifest.edges,
    )
    body: list[bytes] = []
    for line in (head, *map(_line_of, manifest.operators)):
        body += (msgspec.json.encode(line), b"\n")
    if sign is not None:
        found = _SIGNED.search(body[0])
        assert found is not None
        body[0] = (
            body[0][: found.start(1)] + sign([_versioned(manifest.version), *body]).encode() + body[0][found.end(1) :]
        )
    return [_header(manifest.version, body), *body]


def signed_parts(content: bytes) -> tuple[str, list[bytes | memoryview]]:
    """Returns the signature in an intact ``_metadata`` and the bytes that it covers; an empty text without one."""
    header = _HEADER.match(content)
    assert header is not None
    found = list(_SIGNED.finditer(content, header.end(), content.index(b"\n", header.end())))
    if len(found) != 1:
        return "", []
    begin, end = found[0].span(1)
    before, rest = content[header.end() : begin], memoryview(content)[end:]
    return found[0][1].decode(), [_versioned(int(header[1])), before, _NO_SIGNATURE.encode(), rest]


def _versioned(version: int) -> bytes:
    return f"{FORMAT} {version}\n".encode()


def _properties(properties: Mapping[str, str], *, is_signed: bool) -> dict[str, str]:
    texts = {key: text for key, text in properties.items() if key != SIGNATURE}
    if is_signed:
        texts[SIGNATURE] = _NO_SIGNATURE
    return dict(sorted(texts.items()))


def _line_of(state: OperatorState) -> _Operator:
    plain = _Operator.of(state)
    if state.coordinator is None:
        return plain
    return _Coordinated(
        **{name: getattr(plain, name) for name in _Operator.__struct_fields__}, coordinator=state.coordinator
    )


def manifest_from_bytes(content: bytes, place: str) -> CheckpointManifest:
    """Decodes the content of ``_metadata``. ``place``: the file's name, for messages.

    Raises ``CorruptData`` that says what is wrong, or ``VersionMismatch`` for an intact file of another version.
    """
    try:
        return _manifest_of(content, place)
    except CorruptData as error:
        raise CorruptData(f"{error.message}; {ON_DAMAGE}") from error.__cause__


def _manifest_of(content: bytes, place: str) -> CheckpointManifest:
    version, body = _verified(content, place)
    if version not in READABLE_MANIFEST_VERSIONS:
        readable = " and ".join(str(v) for v in sorted(READABLE_MANIFEST_VERSIONS))
        raise VersionMismatch(
            f"{place} has checkpoint format version {version}, this tidegate reads versions {readable}; "
            "use the tidegate that wrote it"
        )
    lines = body.split(b"\n")
    head = _decoded(_Checkpoint, lines[0], f"{place} line 2")
    if len(lines) != head.operators + 2 or lines[-1]:
        raise CorruptData(f"{place} holds {len(lines) - 2} operators, but its line 2 says {head.operators}")
    operators = tuple(
        _checked(_decoded(OperatorState, line, f"{place} line {number}"), f"{place} line {number}")
        for number, line in enumerate(lines[1:-1], start=3)
    )
    return CheckpointManifest(
        JobId(head.job_id),
        head.job_name,
        CheckpointId(head.checkpoint_id),
        head.timestamp_ms,
        head.snapshot_type,
        operators,
        version,
        head.generation,
        head.properties,
        head.edges,
    )


def _header(version: int, body: Sequence[bytes]) -> bytes:
    size_bytes = sum(map(len, body))
    checksum = _checksum(version, size_bytes, body)
    return f'{{"format":"{FORMAT}","version":{version},"size_bytes":{size_bytes},"xxh3_64":"{checksum}"}}\n'.encode()


def _checksum(version: int, size_bytes: int, body: Iterable[bytes]) -> str:
    state = xxhash.xxh3_64(f"{FORMAT} {version} {size_bytes}\n".encode())
    for part in body:
        state.update(part)
    return state.hexdigest()


def _verified(content: bytes, place: str) -> tuple[int, bytes]:
    """Checks the header, size and checksum of a file; returns its version and the lines after the header. Raises ``CorruptData``."""
    if not content:
        raise CorruptData(f"{place} is empty")
    found = _HEADER.match(content[:_HEADER_MAX_BYTES])
    if found is None:
        raise CorruptData(
            f"{place} does not begin with the header of a tidegate checkpoint; it is damaged, or not a checkpoint"
        )
    version, size_bytes, checksum = int(found[1]), int(found[2]), found[3].decode()
    body = content[found.end() :]
    if len(body) != size_bytes:
        what = "is cut off: it ends at" if len(body) < size_bytes else "is too long: it goes on to"
        raise CorruptData(f"{place} {what} byte {len(content)}, its header says {found.end() + size_bytes}")
    actual = _checksum(version, size_bytes, [body])
    if actual != checksum:
        raise CorruptData(f"{place} is damaged: its checksum is {actual}, the header says {checksum}")
    return version, body


def _decoded(kind: type[_T], line: bytes, place: str) -> _T:
    try:
        return msgspec.json.decode(line, type=kind)
    except UNREADABLE as error:
        raise CorruptData(f"{place} does not have the form of a checkpoint: {error}") from None


def _checked(operator: OperatorState, place: str) -> OperatorState:
    """Returns an operator after checking that its numbers are consistent. Raises ``CorruptData``."""
    if not 0 < operator.parallelism <= operator.max_parallelism:
        raise CorruptData(
            f"{place}: the parallelism {operator.parallelism} is not between 1 and the maximum {operator.max_parallelism}"
        )
    for index in (*operator.subtasks, *operator.finished):
        if not 0 <= index < operator.parallelism:
            raise CorruptData(f"{place}: subtask {index} of an operator with parallelism {operator.parallelism}")
    for index, snapshot in operator.subtasks.items():
        for segment in snapshot.keyed:
            _check_segment(segment, operator.max_parallelism, f"{place}: subtask {index}, state {segment.state_name!r}")
        for channel in (*snapshot.input_channels, *snapshot.output_channels):
            _check_channel(channel, f"{place}: subtask {index}")
    return operator


def _check_segment(segment: SegmentHandle, max_parallelism: int, place: str) -> None:
    groups, offsets = segment.key_groups, segment.offsets
    if not 0 <= groups.start <= groups.end < max_parallelism:
        raise CorruptData(
            f"{place}: key groups {groups.start} to {groups.end} are not within the {max_parallelism} that exist"
        )
    if len(offsets) != groups.size + 1 or list(offsets) != sorted(offsets) or offsets[0] < 0:
        raise CorruptData(f"{place}: the {len(offsets)} offsets of the index do not fit {groups.size} key groups")
    if segment.level < 0:
        raise CorruptData(f"{place}: the level of a file is {segment.level}, which is negative")


def _check_channel(channel: ChannelStateHandle, place: str) -> None:
    if min(channel.edge_id, channel.producer, channel.consumer, channel.batches, channel.input_index) < 0:
        raise CorruptData(f"{place}: in-flight data has a negative number in its description, {channel}")
