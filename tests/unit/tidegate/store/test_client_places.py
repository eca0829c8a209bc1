"""Places that clients name: below the roots of the configuration, by whichever spelling and link."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.tidegate.wire.test_manifest import make_manifest
from tidegate.jobmanager.service.storage.faulty_storage import client_places
from tidegate.model.checkpoint import CheckpointManifest, SnapshotType
from tidegate.model.configuration import Configuration
from tidegate.model.errors import CorruptData, Misuse, StorageError
from tidegate.model.handles.mapped_handles import map_handles
from tidegate.model.ids import CheckpointId, JobId
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.client_places import ClientPlaces
from tidegate.wire.manifest import METADATA_FILE, manifest_to_parts

JOB, N = JobId("a" * 32), CheckpointId(7)
EVERYTHING = ClientPlaces()


@pytest.mark.parametrize(
    "location",
    [
        "/sp",
        "sp",
        "a?b#c@d",
        "s3://bucket/sp",
        "gs://b-1.c/x",
        "hdfs:///sp",
        "hdfs://default/sp",
        "file:///sp",
        "file://localhost/sp",
        "FILE:/sp",
        "memory:",
        "/",
    ],
)
def test_with_nothing_configured_whatever_is_here_and_every_bucket_is_taken(location: str) -> None:
    EVERYTHING.place_of(location)


@pytest.mark.parametrize(
    "location",
    [
        "s3://b/x?scheme=http&endpoint_override=127.0.0.1:9",
        "s3://KEY:geheim@bucket/x",
        "s3://geheim@bucket/x",
        "gs://b/x#geheim",
        "hdfs://h/x?geheim",
        "s3://[geheim/x",
        "abfs://:geheim@account/x",
        "abfs://c:geheim@account/x",
        "S3://geheim@bucket/x",
        "file:///x?geheim",
    ],
)
def test_what_is_more_than_a_place_is_refused_and_not_repeated(location: str) -> None:
    with pytest.raises(Misuse) as refused:
        EVERYTHING.place_of(location)
    assert "geheim" not in str(refused.value)
    assert "127.0.0.1" not in str(refused.value)


@pytest.mark.parametrize(
    "location",
    [
        "hdfs://127.0.0.1:9/x",
        "viewfs://host/x",
        "abfs://evil.example.com/c/x",
        "abfss://c@account.dfs.core.windows.net/x",
        "s3://127.0.0.1:9/x",
        "s3:bucket/x",
        "s3:///x",
        "mock:///x",
        "local:/etc",
        "http://host/x",
        "file://host/x",
        "/a\0b",
        "file:///a%00b",
        "/a\nb",
        "s3://b/a/../../c",
        "s3://b/%2e%2E/c",
        "s3://b/a%2f..%2fc",
        "s3://b/a//c",
        "s3://b/a/./c",
        "s3://b/..%5cc",
    ],
)
def test_a_host_of_the_clients_choice_and_what_no_store_would_read_alike_are_refused(location: str) -> None:
    with pytest.raises(Misuse):
        EVERYTHING.place_of(location)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "in").mkdir(parents=True)
    (tmp_path / "rooted").mkdir()
    (tmp_path / "out").mkdir()
    return tmp_path / "root"


def test_only_what_is_below_a_root_is_taken_with_links_resolved(root: Path) -> None:
    places = ClientPlaces((str(root),), any_here=False)
    (root / "leaves").symlink_to(root.parent / "out")
    (root / "stays").symlink_to(root / "in")
    (root.parent / "comes").symlink_to(root / "in")
    (root / "turns").symlink_to(root / "turns")
    for inside in (root, root / "new" / "deep", root / "in", f"{root}/", f"{root}/in/../new", f"file://{root}/%69n"):
        assert places.place_of(str(inside)).startswith(str(root))
    assert places.place_of(str(root / "stays" / "x")) == f"{root}/in/x", "what the link says now"
    assert places.place_of(str(root.parent / "comes" / "x")) == f"{root}/in/x"
    for outside in (
        root.parent / "out",
        root.parent / "rooted",
        root / "leaves",
        root / "leaves" / "new",
        f"{root}/../out",
        f"{root}/in/../../out",
        f"file://{root}/%2e%2e/out",
        f"FILE:{root}/../out",
        "relative",
        "~",
        "/",
        "s3://bucket/x",
        "hdfs:///x",
    ):
        with pytest.raises(Misuse, match="tidegate.client-directories"):
            places.place_of(str(outside))


def test_a_root_that_is_a_link_keeps_its_spelling(root: Path) -> None:
    (root.parent / "volume").symlink_to(root)
    places = ClientPlaces((f"file://{root.parent}/volume/",), any_here=False)
    assert places.place_of(f"{root}/in") == places.place_of(f"{root.parent}/volume/in") == f"{root.parent}/volume/in"


def test_below_the_root_of_all_is_everything_here(root: Path) -> None:
    assert ClientPlaces(("/",), any_here=False).place_of(str(root)) == str(root)


@pytest.mark.parametrize(
    ("root", "inside", "outside"),
    [
        ("s3://bucket/a", ["s3://bucket/a", "s3://bucket/a/", "s3://bucket/a/b", "S3://bucket/%61/b"], ["s3://bucket/ab", "s3://other/a", "gs://bucket/a", "s3://Bucket/a"]),
        ("s3://bucket", ["s3://bucket/a"], ["s3://bucket2/a"]),
        ("gs://bucket/a", ["gcs://bucket/a/b"], ["gs://bucket"]),
        ("hdfs://name:8020/a", ["hdfs://name:8020/a/b"], ["hdfs://name/a", "hdfs://other:8020/a", "hdfs:///a"]),
        ("abfs://c@account.dfs.core.windows.net/a", ["abfs://c@account.dfs.core.windows.net/a/b"], ["abfs://d@account.dfs.core.windows.net/a", "abfs://c@evil.example.com/a"]),
    ],
)  # fmt: skip
def test_a_place_elsewhere_has_the_host_and_the_path_of_a_root(
    root: str, inside: list[str], outside: list[str]
) -> None:
    places = ClientPlaces((root,), any_here=False)
    for place in inside:
        places.place_of(place)
    for place in outside:
        with pytest.raises(Misuse):
            places.place_of(place)


@pytest.mark.parametrize(
    ("settings", "is_taken"),
    [
        ({}, True),
        ({"jobmanager.bind-host": "127.0.0.1", "rest.bind-address": "::1"}, True),
        ({"jobmanager.bind-host": "0.0.0.0"}, False),
        ({"rest.bind-address": "192.0.2.1"}, False),
        ({"tidegate.client-directories": "/elsewhere"}, False),
        ({"tidegate.client-directories": ""}, False),
        ({"tidegate.client-directories": "/elsewhere;/some"}, True),
        ({"rest.bind-address": "0.0.0.0", "tidegate.client-directories": "/"}, True),
        ({"rest.bind-address": "0.0.0.0", "execution.checkpointing.dir": "file:///some"}, True),
        ({"rest.bind-address": "0.0.0.0", "execution.checkpointing.savepoint-dir": "/some/"}, True),
        ({"rest.bind-address": "0.0.0.0", "high-availability.storageDir": "/some"}, True),
    ],
)
def test_the_configuration_of_the_process_names_the_roots(settings: dict[str, str], is_taken: bool) -> None:
    places = client_places(Configuration.from_strings(settings))
    if is_taken:
        places.place_of("/some/place")
    else:
        with pytest.raises(Misuse):
            places.place_of("/some/place")


def storage_below(root: Path) -> CheckpointStorage:
    return CheckpointStorage(client_places=ClientPlaces((str(root),), any_here=False))


def write(location: Path, manifest: CheckpointManifest) -> None:
    location.mkdir(parents=True)
    (location / METADATA_FILE).write_bytes(b"".join(manifest_to_parts(manifest)))


def test_a_savepoint_goes_to_the_place_that_was_checked(root: Path) -> None:
    storage = storage_below(root)
    place = storage.create_location_of_client(str(root / "in"), JOB, N, SnapshotType.SAVEPOINT)
    assert os.path.dirname(place) == str(root / "in")
    (root / "in").rename(root / "was")
    (root / "in").symlink_to(root.parent / "out")
    with pytest.raises(Misuse):
        storage.create_location_of_client(str(root / "in"), JOB, N, SnapshotType.SAVEPOINT)
    assert list((root.parent / "out").iterdir()) == []


def test_a_link_that_comes_between_the_check_and_the_directory_is_noticed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = storage_below(root)
    create = storage.create_location

    def swapped(directory: str | None, *rest: object, **options: bool) -> str:
        (root / "in").rename(root / "was")
        (root / "in").symlink_to(root.parent / "out")
        return create(directory, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(storage, "create_location", swapped)
    with pytest.raises(Misuse):
        storage.create_location_of_client(str(root / "in"), JOB, N, SnapshotType.SAVEPOINT)
    assert list((root.parent / "out").iterdir()) == [], "what was made there is gone"


def test_what_is_read_and_removed_lies_below_a_root_too(root: Path) -> None:
    storage, manifest = storage_below(root), replace(make_manifest(), operators=())
    write(root.parent / "out" / "chk-7", manifest)
    write(root / "chk-7", manifest)
    assert storage.location_of_client(f"{root}/chk-7/_metadata") == f"{root}/chk-7"
    assert storage.read_checkpoint_of_client(f"{root}/chk-7") == (f"{root}/chk-7", manifest)
    (root / "in" / "_metadata").symlink_to(root.parent / "out" / "chk-7" / "_metadata")
    (root / "link").symlink_to(root.parent / "out" / "chk-7")
    for path in (root.parent / "out" / "chk-7", root / "in", root / "in" / "_metadata", root / "link"):
        for ask in (storage.location_of_client, storage.read_checkpoint_of_client):
            with pytest.raises(Misuse, match="outside of the directories"):
                ask(str(path))


@pytest.mark.parametrize(
    "path",
    [
        "s3://b/x?scheme=http&endpoint_override=127.0.0.1:9",
        "hdfs://127.0.0.1:9/x",
        "../../out/state",
        "file:../../out/state",
        "a/../../../out/state",
        "http://127.0.0.1:9/x",
    ],
)
@pytest.mark.parametrize("any_here", [True, False])
def test_a_manifest_leads_nowhere_where_its_client_could_not_go(root: Path, path: str, any_here: bool) -> None:
    storage = CheckpointStorage(client_places=ClientPlaces((str(root),), any_here=any_here))
    forged = map_handles(make_manifest(), lambda handle: replace(handle, path=path))
    write(root / "forged", forged)
    for ask in (storage.location_of_client, storage.read_checkpoint_of_client):
        with pytest.raises(Misuse, match="clients may not name"):
            ask(str(root / "forged"))


def test_a_state_file_that_is_a_link_out_of_the_roots_is_not_read(root: Path) -> None:
    forged = map_handles(make_manifest(), lambda handle: replace(handle, path="state"))
    write(root / "forged", forged)
    (root / "forged" / "state").symlink_to("/etc/passwd")
    with pytest.raises(Misuse, match="clients may not name"):
        storage_below(root).read_checkpoint_of_client(str(root / "forged"))
    with pytest.raises((StorageError, CorruptData)):
        CheckpointStorage().read_checkpoint_of_client(str(root / "forged"))
