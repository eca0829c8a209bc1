"""State whose files lie in an object store is used before it is loaded: through a real server, also where its objects are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.versitygw import BUCKET, VersityGateway
from tests.unit.taskmanager.windows.state.test_window_increments import SAVEPOINT, Job, content_of
from tidegate.common.typeinfo import Types
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, RestoredOperator
from tidegate.model.errors import CorruptData, StorageError
from tidegate.model.keygroups import KeyGroupRange
from tidegate.store.object_files import ObjectRanges
from tidegate.store.segments import open_segment_source, open_segment_store
from tidegate.store.verified_file import BLOCK_BYTES
from tidegate.taskmanager.keyed_state.backend import KeyedBackend
from tidegate.taskmanager.keyed_state.backends import BackendPlace, open_keyed_backend
from tidegate.taskmanager.windows.state.windows import ColumnarWindowState, WindowMemory

OWNED = KeyGroupRange(0, 3)
KEYS = 40_000


def opened(directory: Path, restored_id: int | None) -> KeyedBackend:
    texts = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}
    place = BackendPlace(texts, str(directory), 0, 0, restored_id, lambda: 0)
    return open_keyed_backend(place, "op", OWNED, Types.LONG())


def value_of(key: int) -> bytes:
    return b"%d " % key * 20


def written(bucket: str, directory: Path) -> OperatorSnapshot:
    """A checkpoint of one file of some megabytes."""
    backend = opened(directory, None)
    table = backend.table("state", "value", Types.PICKLED_BYTE_ARRAY())
    for key in range(KEYS):
        table.write(key % OWNED.size, (key, None), value_of(key))
    options = CheckpointOptions(f"{bucket}/chk-1", shared_location=f"{bucket}/shared")
    frozen = backend.freeze(1, options)
    found = frozen.write(open_segment_store(options.location, "a", 1, 0, shared_location=options.shared_location))
    frozen.release()
    backend.close()
    return found


def restored(bucket: str, directory: Path, snapshot: OperatorSnapshot) -> KeyedBackend:
    backend = opened(directory, 1)
    backend.restore(RestoredOperator(keyed=snapshot.keyed), open_segment_source(f"{bucket}/chk-1"))
    return backend


def load_all(backend: KeyedBackend) -> None:
    while backend.rows_to_load:
        backend.load_some()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Bytes that were asked for: first, size."""
    found: list[tuple[int, int]] = []
    read_at = ObjectRanges.read_at

    def recorded(self: ObjectRanges, first: int, size_bytes: int) -> bytes:
        found.append((first, size_bytes))
        return read_at(self, first, size_bytes)

    monkeypatch.setattr(ObjectRanges, "read_at", recorded)
    return found


def object_of(gateway: VersityGateway, snapshot: OperatorSnapshot) -> Path:
    return gateway.root / BUCKET / snapshot.keyed[0].handle.path.removeprefix(f"s3://{BUCKET}/")


def test_values_are_read_by_ranges_and_then_the_rest_each_byte_once(
    bucket: str, tmp_path: Path, asked: list[tuple[int, int]]
) -> None:
    snapshot = written(bucket, tmp_path)
    size = sum(segment.handle.size_bytes for segment in snapshot.keyed)
    assert size > 20 * BLOCK_BYTES
    backend = restored(bucket, tmp_path, snapshot)
    table = backend.table("state", "value", Types.PICKLED_BYTE_ARRAY())
    assert table.read(3, (7, None)) == value_of(7)
    assert table.read(3, (-1, None)) is None
    assert sum(read for _, read in asked) < 8 * BLOCK_BYTES
    table.write(3, (7, None), b"new")
    load_all(backend)
    assert [table.read(key % OWNED.size, (key, None)) for key in (7, 8, KEYS - 1)] == [b"new", value_of(8), value_of(KEYS - 1)]  # fmt: skip
    assert sum(read for _, read in asked) == size
    backend.close()


def test_objects_that_were_changed_are_refused_by_address(gateway: VersityGateway, bucket: str, tmp_path: Path) -> None:
    snapshot = written(bucket, tmp_path)
    place, size = object_of(gateway, snapshot), snapshot.keyed[0].handle.size_bytes
    content = place.read_bytes()
    middle = size // 2
    place.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    backend = restored(bucket, tmp_path, snapshot)
    table = backend.table("state", "value", Types.PICKLED_BYTE_ARRAY())
    assert table.read(0, (0, None)) == value_of(0)
    with pytest.raises(CorruptData, match=f"{snapshot.keyed[0].handle.path} is damaged between its bytes "):
        load_all(backend)
    backend.close()


def test_objects_that_were_cut_off_or_are_missing_are_refused_by_address(
    gateway: VersityGateway, bucket: str, tmp_path: Path
) -> None:
    snapshot = written(bucket, tmp_path)
    place, path = object_of(gateway, snapshot), snapshot.keyed[0].handle.path
    content = place.read_bytes()
    for damage, message in (
        (lambda: place.write_bytes(content[:-5]), f"{path} has {len(content) - 5} bytes, expected {len(content)}"),
        (place.unlink, f"{path} is missing"),
    ):
        damage()
        backend = restored(bucket, tmp_path, snapshot)
        with pytest.raises(CorruptData, match=message):
            backend.table("state", "value", Types.PICKLED_BYTE_ARRAY())
        backend.close()


def test_an_object_that_goes_away_while_it_is_read_is_one_error_with_its_address(
    gateway: VersityGateway, bucket: str, tmp_path: Path
) -> None:
    snapshot = written(bucket, tmp_path)
    backend = restored(bucket, tmp_path, snapshot)
    table = backend.table("state", "value", Types.PICKLED_BYTE_ARRAY())
    assert table.read(0, (0, None)) == value_of(0)
    object_of(gateway, snapshot).unlink()
    with pytest.raises(StorageError, match=f"of the state file {snapshot.keyed[0].handle.path}: "):
        load_all(backend)
    backend.close()


def windows_of(bucket: str) -> tuple[Job, OperatorSnapshot]:
    """Windows over columns, and a checkpoint of them in one file."""
    store = open_segment_store(f"{bucket}/chk-1", "a", 1, 0)
    job = Job(store, 1)
    job.add({(window, key): (1, key, key) for window in range(3) for key in range(10_000)})
    return job, job.freeze(1, SAVEPOINT)[0].write(store)


def restored_windows(bucket: str, directory: Path, snapshot: OperatorSnapshot) -> ColumnarWindowState:
    store = open_segment_store(f"{bucket}/chk-1", "a", 2, 0)
    owner = Job(store, 1, memory=WindowMemory(directory=str(directory), eager_bytes=0)).states[0]
    owner.restore(RestoredOperator(keyed=snapshot.keyed), open_segment_source(f"{bucket}/chk-1"), 1)
    return owner


def test_windows_are_read_meanwhile_each_byte_once_and_fire_out_of_what_was_fetched(
    gateway: VersityGateway, bucket: str, tmp_path: Path, asked: list[tuple[int, int]]
) -> None:
    job, snapshot = windows_of(bucket)
    owner = restored_windows(bucket, tmp_path, snapshot)
    assert owner.restoring is not None
    assert asked == []
    owner.restoring.settle()
    assert sum(read for _, read in asked) == sum(segment.handle.size_bytes for segment in snapshot.keyed)
    for segment in snapshot.keyed:
        (gateway.root / BUCKET / bucket.removeprefix(f"s3://{BUCKET}/") / "chk-1" / segment.handle.path).unlink()
    assert list(tmp_path.iterdir()) == [], "files without a name, mapped"
    for window in range(3):
        assert content_of(owner.take(window)) == {e: v for e, v in job.model.items() if e[0] == window}


def test_a_damaged_object_of_windows_is_refused_by_address(
    gateway: VersityGateway, bucket: str, tmp_path: Path
) -> None:
    _, snapshot = windows_of(bucket)
    name = snapshot.keyed[0].handle.path
    place = gateway.root / BUCKET / bucket.removeprefix(f"s3://{BUCKET}/") / "chk-1" / name
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 1
    place.write_bytes(content)
    owner = restored_windows(bucket, tmp_path, snapshot)
    with pytest.raises((CorruptData, StorageError), match=f"state file {bucket}/chk-1/{name}"):  # S3 has checksums, too
        owner.settle()
