"""What the reader says of a real checkpoint is what the job must have held: counted again from the source's positions."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from tests.unit.tidegate.state_reader.real_checkpoint import KEYS, WINDOW_MS
from tidegate.model.errors import CorruptData, Misuse, StorageError
from tidegate.state_reader import Checkpoint, open_checkpoint, segments
from tidegate.taskmanager.state.files import segments as written
from tidegate.wire.state_columns import ELEMENT, KEY_GROUP


def numbers_read(checkpoint: Checkpoint) -> list[int]:
    """Every number that the source had emitted, by its own state."""
    splits = [json.loads(text) for text in checkpoint.table("rows", "splits")["element_json"].to_pylist()]
    return [n for _, (first, _), position, _ in splits for n in range(first, position)]


def test_keyed_state_has_every_key_once_with_its_value(locations: list[str]) -> None:
    for location in locations:
        checkpoint = open_checkpoint(location)
        expected = Counter(n % KEYS for n in numbers_read(checkpoint))
        table = checkpoint.table("remember", "count")
        assert table.schema.names == ["key_group", "key", "value"]
        assert dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == expected
        assert table["key_group"].to_pylist() == sorted(table["key_group"].to_pylist())


def test_columnar_windows_have_their_times_and_partials(locations: list[str]) -> None:
    checkpoint = open_checkpoint(locations[1])
    rows = checkpoint.table("windows", "windows").to_pylist()
    numbers = numbers_read(checkpoint)
    assert {(r["key.key"], r["value.n"], r["value.total"]) for r in rows} == {
        (key, sum(n % KEYS == key for n in numbers), sum(n for n in numbers if n % KEYS == key)) for key in range(KEYS)
    }
    assert {(r["window_start"], r["window_end"]) for r in rows} == {(0, WINDOW_MS)}


def test_lists_maps_and_timers(locations: list[str]) -> None:
    checkpoint = open_checkpoint(locations[0])
    assert {len(seen) for seen in checkpoint.table("remember", "seen")["value"].to_pylist()} == {3}
    table = checkpoint.table("remember", "by-parity")
    assert table.schema.field("value").type == pa.map_(pa.string(), pa.int64())
    timers = checkpoint.table("remember", "_timers.event").to_pylist()
    assert sorted((t["key"], t["timestamp"]) for t in timers) == [(k, 10_000_000 + k) for k in range(KEYS)]


def test_pickled_values_stay_binary_beside_the_name_of_their_type(locations: list[str]) -> None:
    checkpoint = open_checkpoint(locations[0])
    sessions = checkpoint.table("remember", "session")
    assert sessions.schema.field("value").type == pa.binary()
    assert set(sessions["value_type"].to_pylist()) == {"tests.unit.tidegate.state_reader.real_checkpoint.Session"}
    assert set(checkpoint.table("last", "last")["key_type"].to_pylist()) == {"str"}


def test_states_are_described_from_the_manifest_and_their_files(locations: list[str]) -> None:
    checkpoint = open_checkpoint(f"{locations[0]}/_metadata")
    operator = checkpoint.operator("remember")
    kinds = {state.name: checkpoint.kind_of(state) for state in operator.states}
    assert kinds == {
        "count": "value",
        "seen": "list",
        "by-parity": "map",
        "session": "value",
        "_timers.event": "timers",
    }
    count, splits = operator.state("count"), checkpoint.operator("rows").state("splits")
    assert (count.stored_rows, count.redistribution, count.is_keyed) == (KEYS, "KEY_GROUPS", True)
    assert (splits.stored_rows, splits.redistribution, checkpoint.kind_of(splits)) == (2, "UNION", "union")
    assert count.size_bytes == sum(segment.handle.size_bytes for segment in count.segments) > 0


def test_operators_are_found_by_id_uid_and_name(locations: list[str]) -> None:
    checkpoint = open_checkpoint(locations[0])
    by_uid = checkpoint.operator("windows")
    assert checkpoint.operator("sum") is by_uid
    assert checkpoint.operator(by_uid.described.operator_id.upper()) is by_uid
    with pytest.raises(Misuse, match="no operator 'nobody' in .*; it has 'rows', 'windows', 'remember'"):
        checkpoint.operator("nobody")
    with pytest.raises(Misuse, match="operator 'windows' has no state 'counts' in this checkpoint; it has 'windows'"):
        by_uid.state("counts")


def copied(location: str, target: Path) -> Path:
    shutil.copytree(location, target)
    return target


def segment_file(location: Path, state: str) -> Path:
    return sorted(location.glob(f"remember-{state}-*"))[0]


def test_a_flipped_byte_is_told_with_the_files_name_and_spares_other_states(
    in_files: list[str], tmp_path: Path
) -> None:
    location = copied(in_files[0], tmp_path / "chk")
    path = segment_file(location, "count")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    checkpoint = open_checkpoint(str(location))
    with pytest.raises(CorruptData, match=f"state file {path} is damaged"):
        checkpoint.table("remember", "count")
    assert checkpoint.table("remember", "seen").num_rows == KEYS


def test_a_missing_or_short_file_is_told_when_opening(in_files: list[str], tmp_path: Path) -> None:
    location = copied(in_files[0], tmp_path / "chk")
    path = segment_file(location, "seen")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptData, match=path.name):
        open_checkpoint(str(location))
    path.unlink()
    with pytest.raises(CorruptData, match=f"{path.name} of operator 'remember' is missing"):
        open_checkpoint(str(location))
    with pytest.raises(StorageError, match="there is no such directory"):
        open_checkpoint(str(tmp_path / "nothing"))


def test_a_location_that_pyarrow_knows(in_files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    root, name = in_files[0].rsplit("/", 1)
    served = fs.SubTreeFileSystem(root, fs.LocalFileSystem())

    class FileSystem:
        @staticmethod
        def from_uri(uri: str) -> tuple[fs.FileSystem, str]:
            return served, uri.removeprefix("s3://bucket/")

    monkeypatch.setattr(fs, "FileSystem", FileSystem)
    checkpoint = open_checkpoint(f"s3://bucket/{name}")
    assert checkpoint.location == f"s3://bucket/{name}"
    assert checkpoint.table("remember", "count").num_rows == KEYS


def test_the_names_in_files_are_those_that_are_written() -> None:
    assert (KEY_GROUP, ELEMENT) == (written.KEY_GROUP, written.ELEMENT)
    assert written.METADATA_KEY == segments.METADATA_KEY
    assert {segments.PICKLED_KEY, segments.MSGPACK_KEY} == {*written.PICKLED, *written.MSGPACK}
