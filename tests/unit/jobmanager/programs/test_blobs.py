from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tidegate.jobmanager.programs.blobs import BlobStore
from tidegate.model.errors import CorruptData, ExternalError, InvalidJob, StorageError
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey, JobId

CONTENT = b"a program"
KEY = BlobKey(hashlib.sha256(CONTENT).hexdigest())


def graph(digit: str) -> JobGraph:
    return JobGraph(JobId(digit * 32), f"job {digit}", (), (), blobs={"x.py": KEY})


def put(store: BlobStore, content: bytes = CONTENT) -> BlobKey:
    upload = store.begin()
    upload.add(content)
    key = store.finish(upload)
    upload.close()
    return key


def test_a_blob_is_named_by_its_content_and_read_in_pieces(tmp_path: Path) -> None:
    store = BlobStore(None, tmp_path)
    assert put(store) == KEY
    assert list(store.read(KEY, 4)) == [b"a pr", b"ogra", b"m"]


def test_damage_is_noticed(tmp_path: Path) -> None:
    store = BlobStore(None, tmp_path)
    put(store)
    (tmp_path / "blobs" / KEY).write_bytes(b"b program")
    with pytest.raises(CorruptData, match=f"{KEY} is damaged"):
        list(store.read(KEY, 4))


@pytest.mark.parametrize("key", ["0" * 64, "../../etc/passwd", ""])
def test_what_is_not_here_is_named(tmp_path: Path, key: str) -> None:
    with pytest.raises(StorageError, match="does not have the program"):
        list(BlobStore(None, tmp_path).read(key, 4))


def test_a_blob_lives_as_long_as_a_job_needs_it(tmp_path: Path) -> None:
    store = BlobStore(None, tmp_path)
    with pytest.raises(InvalidJob, match=r"job 'job 1' needs the program \(blob\)"):
        store.retain(graph("1"))
    put(store)
    store.retain(graph("1"))
    put(store)
    store.release(JobId("1" * 32))  # between the upload of job 2 and its submission
    store.retain(graph("2"))
    store.release(JobId("1" * 32))
    assert (tmp_path / "blobs" / KEY).exists()
    store.release(JobId("2" * 32))
    assert list((tmp_path / "blobs").iterdir()) == []


def test_an_upload_that_breaks_leaves_nothing(tmp_path: Path) -> None:
    upload = BlobStore(None, tmp_path).begin()
    upload.add(b"half")
    upload.close()
    assert list((tmp_path / "blobs").iterdir()) == []


def test_closing_removes_what_was_stored_here(tmp_path: Path) -> None:
    store = BlobStore(None, tmp_path)
    put(store)
    store.close()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(
        ExternalError, match=r"working directory in .*file/x \(blob.storage.directory\): Not a directory"
    ):
        BlobStore(str(tmp_path / "file" / "x"), tmp_path)


def test_several_processes_may_have_one_blob_directory(tmp_path: Path) -> None:
    stores = [BlobStore(str(tmp_path / "shared"), tmp_path) for _ in range(2)]
    for store in stores:
        put(store)
    stores[0].close()
    assert list(stores[1].read(KEY, 99)) == [CONTENT]
    stores[1].close()
    assert list((tmp_path / "shared").iterdir()) == []


def leader(directory: Path, term: int) -> BlobStore:
    return BlobStore(None, directory, directory / "kept", term=term)


def test_a_leader_that_was_deposed_takes_no_blob_from_its_successor(tmp_path: Path) -> None:
    """Its job had ended, so that it removes the blob; meanwhile a client has given the same program to the next leader."""
    first = leader(tmp_path, 1)
    put(first)
    first.retain(graph("1"))
    second = leader(tmp_path, 2)
    put(second)
    second.retain(graph("2"))
    first.release(JobId("1" * 32))
    assert list(second.read(KEY, 99)) == [CONTENT]
    second.release(JobId("2" * 32))
    assert list((tmp_path / "kept").iterdir()) == []


def test_the_next_leader_reads_what_the_one_before_has_kept(tmp_path: Path) -> None:
    put(leader(tmp_path, 1))
    second = leader(tmp_path, 2)
    second.retain(graph("1"))
    second.remove_unclaimed()
    assert list(second.read(KEY, 99)) == [CONTENT]
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [f"{KEY}-1"]
    second.release(JobId("1" * 32))
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_leader_that_looks_for_what_no_job_needs_leaves_what_a_later_one_has(tmp_path: Path) -> None:
    first = leader(tmp_path, 3)
    put(first, b"of no job")
    coming = leader(tmp_path, 3).begin()
    second = leader(tmp_path, 12)  # 12 is later than 3, by its number and not by its text
    put(second)
    arriving = second.begin()
    first.remove_unclaimed()
    second.retain(graph("2"))
    assert len(list((tmp_path / "kept").iterdir())) == 2, "a blob and one on its way in"
    for upload in (coming, arriving):
        upload.close()


def test_a_blob_of_a_version_that_named_no_term_is_read(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / KEY).write_bytes(CONTENT)
    store = leader(tmp_path, 1)
    store.retain(graph("1"))
    assert list(store.read(KEY, 99)) == [CONTENT]
    store.release(JobId("1" * 32))
    assert list((tmp_path / "kept").iterdir()) == []


def test_uploads_that_no_job_names_are_removed_in_the_end(tmp_path: Path) -> None:
    now_s = [0.0]
    store = BlobStore(None, tmp_path, now_s=lambda: now_s[0])

    first = put(store, b"first")
    now_s[0] = 2000.0
    second = put(store, b"second")
    now_s[0] = 3000.0
    assert put(store, b"first") == first, "it begins to wait anew"
    now_s[0] = 5601.0
    third = put(store, b"third")
    assert b"".join(store.read(first, 10)) == b"first"
    assert b"".join(store.read(third, 10)) == b"third"
    with pytest.raises(StorageError):
        list(store.read(second, 10))
