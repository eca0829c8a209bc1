"""Files of Protobuf messages: as protobuf itself writes and reads them, from any message, and what is damaged."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from google.protobuf import proto

from tests.contract.protobuf.cases import message_type
from tidegate.common.row import Row
from tidegate.common.typeinfo import Types
from tidegate.connectors.formats import protobuf_files
from tidegate.connectors.formats.protobuf_files import ProtobufEncoderFactory, ProtobufFileFormat
from tidegate.connectors.formats.protobuf_messages import ProtobufMessages, ProtobufRows
from tidegate.model.errors import CorruptData, SchemaMismatch
from tidegate.records.record_codec import decode, encode

ORDER = message_type("orders3")
Order: Any = ORDER.message_class()
KIND = Types.ROW_NAMED(["text", "large"], [Types.STRING(), Types.LONG()])
ROWS = [("x" * (n % 300), n) for n in range(1_000)]


def written_by_protobuf(rows: list[tuple[str, int]]) -> bytes:
    file = io.BytesIO()
    for row in rows:
        proto.serialize_length_prefixed(Order(text=row[0], large=row[1]), file)
    return file.getvalue()


def format_of(*, ignores: bool = False) -> ProtobufFileFormat:
    return ProtobufFileFormat(ProtobufRows(ORDER, KIND, ignore_parse_errors=ignores))


def read(path: Path, start: int | None = None, skip: int = 0, *, ignores: bool = False) -> list[Any]:
    wanted = format_of(ignores=ignores)
    info = pafs.LocalFileSystem().get_file_info(str(path))
    (part,) = wanted.ranges(info, str(path), 64)
    return [row for block in wanted.blocks(part, start, skip) for row in map(tuple, decode(KIND, block.data))]


def test_what_protobuf_wrote_is_read_also_compressed(tmp_path: Path) -> None:
    (tmp_path / "a.pb").write_bytes(written_by_protobuf(ROWS))
    (tmp_path / "a.pb.gz").write_bytes(gzip.compress(written_by_protobuf(ROWS)))
    (tmp_path / "none.pb").write_bytes(b"")
    assert read(tmp_path / "a.pb") == ROWS
    assert read(tmp_path / "a.pb.gz") == ROWS
    assert read(tmp_path / "none.pb") == []


def test_protobuf_reads_what_is_written_byte_for_byte() -> None:
    sink = pa.BufferOutputStream()
    encoder = ProtobufEncoderFactory(ProtobufMessages(ORDER)).open(sink, KIND.arrow_schema())
    encoder.write(encode(KIND, [Row(*row) for row in ROWS[:400]]))
    encoder.write(encode(KIND, [Row(*row) for row in ROWS[400:]]))
    encoder.finish()
    content = sink.getvalue().to_pybytes()
    file = io.BytesIO(content)
    for row in ROWS:
        found = proto.parse_length_prefixed(Order, file)
        assert (found.text, found.large) == (row[0], row[1])
    assert content == written_by_protobuf(ROWS)


def test_reading_goes_on_from_any_block_and_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf_files, "_BLOCK_MESSAGES", 70)
    path = tmp_path / "a.pb"
    path.write_bytes(written_by_protobuf(ROWS))
    wanted = cloudpickle.loads(cloudpickle.dumps(format_of()))
    (part,) = wanted.ranges(pafs.LocalFileSystem().get_file_info(str(path)), str(path), 64)
    before = 0
    for block in wanted.blocks(part, None, 0):
        assert read(path, block.start, 0) == ROWS[before:]
        assert read(path, block.start, 3) == ROWS[before + 3 :]
        before += block.data.num_rows
    assert before == len(ROWS)
    first = wanted.first_record(part, None, 0)
    assert first is not None
    assert [tuple(row) for row in decode(KIND, first)] == ROWS[:1]


def test_a_message_larger_than_a_piece_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf_files, "_PIECE_BYTES", 64)
    path = tmp_path / "a.pb"
    path.write_bytes(written_by_protobuf(ROWS))
    assert read(path) == ROWS


def test_damage_is_named_by_its_place(tmp_path: Path) -> None:
    content = written_by_protobuf(ROWS[:3])
    (tmp_path / "short.pb").write_bytes(content[:-1])
    with pytest.raises(CorruptData, match=r"short\.pb ends within the message at byte "):
        read(tmp_path / "short.pb")
    (tmp_path / "text.pb").write_bytes(b"\xff" * 20)
    with pytest.raises(CorruptData, match="no message length is at byte 0; check that the file holds"):
        read(tmp_path / "text.pb")
    bad = content + b"\x01\x0a" + content
    (tmp_path / "bad.pb").write_bytes(bad)
    with pytest.raises(
        CorruptData, match=f"in the message at byte {len(content)}: the message is not a tidegate.tests.third.Order"
    ):
        read(tmp_path / "bad.pb")
    assert read(tmp_path / "bad.pb", ignores=True) == ROWS[:3] * 2


def test_columns_that_the_message_does_not_have_are_refused() -> None:
    with pytest.raises(SchemaMismatch, match="'nothing' is none of its fields"):
        ProtobufEncoderFactory(ProtobufMessages(ORDER)).open(
            pa.BufferOutputStream(), pa.schema([("nothing", pa.int32())])
        )
