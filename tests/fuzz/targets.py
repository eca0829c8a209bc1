"""What reads bytes from outside of the process, each as a function of bytes that ends well or with the errors that it promises.

Anything else is a finding: another exception, memory out of proportion, a hang.
"""

from __future__ import annotations

import io
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import xxhash
from google.protobuf.message import DecodeError, Message

from tests.unit.tidegate.wire.test_manifest import make_manifest
from tidegate.jobmanager.programs.files import ProgramFiles
from tidegate.model.channel_events import Barrier, EndOfPartition, UserEvent, WatermarkEvent
from tidegate.model.checkpoint import Alignment, CheckpointOptions, SnapshotType
from tidegate.model.errors import ConfigurationError, CorruptFrame, InvalidJob, Misuse, TidegateError
from tidegate.model.graph import JobEdge, JobGraph, JobVertex, OperatorInfo, Partitioner
from tidegate.pb import common_pb2, jobmanager_pb2, subtask_pb2
from tidegate.security.users import Role, Users, credential_of_token, parse_users
from tidegate.taskmanager.spark.dependencies import unpack
from tidegate.wire import convert
from tidegate.wire.channel_messages import (
    Credit,
    Hello,
    RefusalCode,
    Refused,
    decode_event,
    decode_message,
    encode_event,
    encode_message,
)
from tidegate.wire.control_frames import frame, parse, payload_bytes
from tidegate.wire.convert_events import operator_event_from_pb
from tidegate.wire.convert_kv_state import kv_state_from_pb
from tidegate.wire.frames import (
    HEADER_BYTES,
    BatchEncoder,
    EncodedBatch,
    FrameDecoder,
    FrameType,
    event_frame,
    make_frame,
    make_header,
    read_schema,
)
from tidegate.wire.kv_state_columns import keys_of, values_of, write_keys, write_values
from tidegate.wire.manifest import manifest_from_bytes, manifest_to_parts
from tidegate.wire.user_events import value_of

MOST_BYTES: Final = 1 << 20
"""How long a payload may be here."""
_ID: Final = "a" * 32
_ATTEMPT: Final = f"{_ID}_{_ID}_0_0"
_BATCH: Final = pa.record_batch({"key": pa.array(["a", None, "b"]), "n": pa.array([1, 2, 3])})
_HELLO: Final = Hello("t", _ID, _ATTEMPT, _ATTEMPT, 1, 0)
_OPTIONS: Final = CheckpointOptions("/c", SnapshotType.CHECKPOINT, Alignment.ALIGNED)


@dataclass(frozen=True)
class Target:
    """``corpus``: valid inputs. ``run``: reads one input, whatever it is."""

    corpus: Sequence[bytes]
    run: Callable[[bytes], None]


# --- frames of data connections and control streams ------------------------------------------------


def _repaired(data: bytes) -> bytes:
    """With the checksums that the first frame has to have, so that what stands behind them is read too."""
    if len(data) < HEADER_BYTES:
        return data
    header = bytearray(data[:HEADER_BYTES])
    header[8:12] = struct.pack("<I", min(len(data) - HEADER_BYTES, MOST_BYTES))
    header[12:16] = _checksum(data[HEADER_BYTES:])
    header[16:24] = bytes(8)
    header[32:40] = _checksum(bytes(header[:32])) + bytes(4)
    return bytes(header) + data[HEADER_BYTES:]


def _checksum(data: bytes) -> bytes:
    return struct.pack("<I", xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF)


def _read_frames(data: bytes) -> None:
    decoder = FrameDecoder("fuzz", MOST_BYTES)
    schema: pa.Schema | None = None
    with suppress(CorruptFrame):
        for one in decoder.feed(data):
            view = memoryview(one.payload)
            match one.type:
                case FrameType.SCHEMA:
                    schema = read_schema(one)
                case FrameType.BATCH:
                    EncodedBatch(one.payload, schema).decode()
                case FrameType.EVENT:
                    decode_event(view)
                case FrameType.HELLO:
                    decode_message(view, Hello)
                case FrameType.CREDIT:
                    decode_message(view, Credit)
                case FrameType.REFUSED:
                    decode_message(view, Refused)
        decoder.finish()


def _frames() -> list[bytes]:
    frames = [
        make_frame(FrameType.HELLO, encode_message(_HELLO)),
        make_frame(FrameType.ACCEPTED),
        *BatchEncoder().encode(_BATCH),
        make_frame(FrameType.CREDIT, encode_message(Credit(9, 8))),
        event_frame(Barrier(7, 8, _OPTIONS)),
        event_frame(EndOfPartition()),
    ]
    each = [make_header(one, 0) + bytes(one.payload) for one in frames]
    return [b"".join(make_header(one, number) + bytes(one.payload) for number, one in enumerate(frames)), *each]


def _read_handshake(data: bytes) -> None:
    kinds: Sequence[type[Any]] = (Hello, Credit, Refused)
    for kind in kinds:
        with suppress(CorruptFrame):
            decode_message(data, kind)


def _read_event(data: bytes) -> None:
    with suppress(TidegateError):
        event = decode_event(data)
        if isinstance(event, UserEvent):
            value_of(event)


def _read_control(data: bytes) -> None:
    with suppress(CorruptFrame):
        length = payload_bytes(data[:4].ljust(4, b"\0"), MOST_BYTES)
        for kind in (subtask_pb2.FromSubtask, subtask_pb2.ToSubtask):
            parse(kind, data[4 : 4 + length])


# --- requests by gRPC ------------------------------------------------------------------------------

_GRAPH: Final = JobGraph(
    _ID,  # type: ignore[arg-type]
    "job",
    (JobVertex(_ID, "source", 2, 128, (OperatorInfo(_ID, "source", "uid"),), _ID),),  # type: ignore[arg-type]
    (JobEdge(0, _ID, _ID, Partitioner.HASH),),  # type: ignore[arg-type]
    {"a": "b"},
    {"file.py": _ID},  # type: ignore[dict-item]
    "3.11",
)


def _of_graph(message: Any) -> None:
    convert.graph_from_pb(message.graph)


def _of_registration(message: Any) -> None:
    tuple(map(convert.attempt_report_from_pb, message.attempts))


_REQUESTS: Final[Sequence[tuple[type[Message], Callable[[Any], object], Message]]] = (
    (jobmanager_pb2.SubmitJobRequest, _of_graph, jobmanager_pb2.SubmitJobRequest(graph=convert.graph_to_pb(_GRAPH))),
    (
        jobmanager_pb2.RegisterTaskManagerRequest,
        _of_registration,
        jobmanager_pb2.RegisterTaskManagerRequest(attempts=[jobmanager_pb2.AttemptReport(attempt=_ATTEMPT)]),
    ),
    (
        common_pb2.SubtaskSnapshot,
        convert.snapshot_from_pb,
        convert.snapshot_to_pb(
            convert.snapshot_from_pb(common_pb2.SubtaskSnapshot(operators={_ID: common_pb2.OperatorSnapshot()}))
        ),
    ),
    (common_pb2.CheckpointOptions, convert.options_from_pb, convert.options_to_pb(_OPTIONS)),
    (common_pb2.Error, convert.error_from_pb, common_pb2.Error(code="x", message="y")),
    (common_pb2.TaskMetrics, convert.task_metrics_from_pb, common_pb2.TaskMetrics(records_in=1, user={"a": 1.0})),
    (common_pb2.OperatorEvent, operator_event_from_pb, common_pb2.OperatorEvent()),
    (common_pb2.KvStateInfo, kv_state_from_pb, common_pb2.KvStateInfo()),
)


def _read_request(data: bytes) -> None:
    """The first byte chooses the message."""
    kind, converter, _ = _REQUESTS[data[0] % len(_REQUESTS) if data else 0]
    with suppress(DecodeError, TidegateError):
        message = kind()
        message.ParseFromString(data[1:])
        converter(message)
        convert.deployment_from_bytes(data[1:])


def _read_keys(data: bytes) -> None:
    for read in (keys_of, values_of):
        with suppress(CorruptFrame):
            read(data)


# --- files: manifests, archives, users -------------------------------------------------------------


def signed(body: bytes) -> bytes:
    """A manifest with the header of its further lines."""
    checksum = xxhash.xxh3_64(f"tidegate-checkpoint 1 {len(body)}\n".encode() + body).hexdigest()
    return (
        f'{{"format":"tidegate-checkpoint","version":1,"size_bytes":{len(body)},"xxh3_64":"{checksum}"}}\n'.encode()
        + body
    )


def _read_manifest(data: bytes) -> None:
    for content in (data, signed(data)):
        with suppress(TidegateError):
            manifest_from_bytes(content, "_metadata")


def _manifests() -> list[bytes]:
    parts = manifest_to_parts(make_manifest())
    return [b"".join(parts), b"".join(parts[1:])]


def _zip(method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("job.py", "print('hello, hello, hello, hello')\n")
        archive.writestr("data/a.txt", "x" * 500)
    return buffer.getvalue()


def _tar(mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name in ("a.txt", "b/c.txt"):
            member = tarfile.TarInfo(name)
            member.size = 100
            archive.addfile(member, io.BytesIO(b"y" * 100))
    return buffer.getvalue()


def _read_program(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        files = ProgramFiles(f"{directory}/programs", directory, MOST_BYTES)
        incoming, into = files.begin(), Path(directory, "unpacked")
        incoming.write_bytes(data)
        into.mkdir()
        with suppress(Misuse):
            files.unpack(files.adopt(incoming, "job.zip"), None, into)


def _read_archive(data: bytes) -> None:
    for name in ("a.zip", "a.tar.gz", "a.tar"):
        with tempfile.TemporaryDirectory() as directory:
            archive, into = Path(directory, name), Path(directory, "unpacked")
            archive.write_bytes(data)
            into.mkdir()
            with suppress(InvalidJob):
                unpack(archive, into, "archive")


def _read_users(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    with suppress(ConfigurationError):
        Users(parse_users(text, "users")).of_token(text)
    Users([credential_of_token("ada", Role.VIEW, "t")]).of_token(text)


def _users() -> list[bytes]:
    lines = "".join(
        f"{credential_of_token(name, role, name).line()}\n" for name, role in (("ada", Role.VIEW), ("ci", Role.DEPLOY))
    )
    return [f"# users\n{lines}".encode(), b"ada view cert:" + b"ab:" * 31 + b"ab\n"]


TARGETS: Final[dict[str, Target]] = {
    "frames": Target(_frames(), _read_frames),
    "frames with checksums": Target(_frames(), lambda data: _read_frames(_repaired(data))),
    "handshakes": Target(
        [encode_message(one) for one in (_HELLO, Credit(5, 4), Refused(RefusalCode.BAD_TOKEN, "no"))], _read_handshake
    ),
    "events": Target(
        [
            encode_event(one)
            for one in (Barrier(7, 8, _OPTIONS), WatermarkEvent(5), EndOfPartition(), UserEvent(b"\x92\xa1a\x01"))
        ],
        _read_event,
    ),
    "control messages": Target([frame(subtask_pb2.FromSubtask()), frame(subtask_pb2.ToSubtask())], _read_control),
    "requests": Target(
        [bytes([number]) + message.SerializeToString() for number, (_, _, message) in enumerate(_REQUESTS)],
        _read_request,
    ),
    "keys of queryable state": Target(
        [
            write_keys(pa.array(["a", "b"]), pa.field("key", pa.string())),
            write_values([0], pa.array([5]), pa.field("value", pa.int64())),
        ],
        _read_keys,
    ),
    "manifests": Target(_manifests(), _read_manifest),
    "uploaded programs": Target([_zip(), _zip(zipfile.ZIP_STORED)], _read_program),
    "archives of jobs": Target([_zip(), _zip(zipfile.ZIP_BZIP2), _tar("w"), _tar("w:gz")], _read_archive),
    "users": Target(_users(), _read_users),
}

__all__ = ["MOST_BYTES", "TARGETS", "Target"]
