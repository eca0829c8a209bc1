"""Manifests of a cluster that signs them: what it wrote is read, by whichever key of it, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.tidegate.wire.test_manifest import make_manifest
from tidegate.model.checkpoint import CheckpointManifest, SnapshotType
from tidegate.model.errors import CorruptData, NotSigned
from tidegate.model.ids import CheckpointId, JobId
from tidegate.security.signing import Signing, key_of_text
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.wire.manifest import FORMAT, SIGNATURE, manifest_from_bytes, manifest_to_parts, signed_parts

JOB, N = JobId("a" * 32), CheckpointId(7)
KEY, OTHER = key_of_text("a" * 64), key_of_text("b" * 64)
SIGNING = Signing((KEY,))


def storage_of(signing: Signing | None) -> CheckpointStorage:
    return CheckpointStorage(signing=None if signing is None else lambda: signing)


def saved(directory: Path, signing: Signing | None, manifest: CheckpointManifest | None = None) -> Path:
    storage = storage_of(signing)
    location = storage.create_location(str(directory), JOB, N)
    (Path(location) / "count-x-0").write_bytes(b"0" * 70_000)
    assert storage.write_manifest(location, manifest or make_manifest()).error is None
    assert storage.read_back(location).error is None
    return Path(location)


def unsigned(manifest: CheckpointManifest) -> CheckpointManifest:
    return replace(manifest, properties={k: text for k, text in manifest.properties.items() if k != SIGNATURE})


def test_what_it_wrote_is_read_also_moved_and_by_every_key(tmp_path: Path) -> None:
    location = saved(tmp_path, SIGNING)
    assert unsigned(storage_of(SIGNING).read_checkpoint(str(location))[1]) == make_manifest()
    assert unsigned(storage_of(SIGNING).read_manifest(str(location))) == make_manifest()
    assert unsigned(storage_of(Signing((OTHER, KEY))).read_manifest(str(location))) == make_manifest()
    assert unsigned(storage_of(None).read_manifest(str(location))) == make_manifest(), (
        "who does not ask reads it as well"
    )
    (tmp_path / "elsewhere").mkdir()
    moved = location.rename(tmp_path / "elsewhere" / "chk-7")
    assert unsigned(storage_of(SIGNING).read_checkpoint(str(moved))[1]) == make_manifest()


def test_it_is_signed_anew_where_it_is_written_anew(tmp_path: Path) -> None:
    """A savepoint that is made of another one has the manifest of that one, with its signature."""
    first = storage_of(SIGNING).read_manifest(str(saved(tmp_path / "first", SIGNING)))
    changed = replace(first, timestamp_ms=first.timestamp_ms + 1, snapshot_type=SnapshotType.SAVEPOINT)
    second = saved(tmp_path / "second", SIGNING, changed)
    assert storage_of(SIGNING).read_manifest(str(second)).timestamp_ms == changed.timestamp_ms
    plain = saved(tmp_path / "third", None, changed)
    assert SIGNATURE not in storage_of(None).read_manifest(str(plain)).properties


@pytest.mark.parametrize(
    ("writer", "why"),
    [
        (None, "it is not signed"),
        (Signing((OTHER,)), "its signature is not by a key of this cluster, or it was altered"),
        (Signing((KEY,), "another"), "its signature is not by a key of this cluster, or it was altered"),
    ],
)
def test_nothing_else_is_read(tmp_path: Path, writer: Signing | None, why: str) -> None:
    location = saved(tmp_path, writer)
    storage = storage_of(SIGNING)
    for read in (storage.read_checkpoint, storage.read_checkpoint_of_client, storage.read_manifest):
        with pytest.raises(NotSigned, match=f"{location}/_metadata: {why}.*tidegate.security.signing.manifests"):
            read(str(location))


CONTENT = b"".join(manifest_to_parts(make_manifest(), SIGNING.code_of_manifest))


def with_header(body: bytes, version: int = 2) -> bytes:
    """As a forger would write it: the checksum is no secret."""
    checksum = xxhash.xxh3_64(f"{FORMAT} {version} {len(body)}\n".encode() + body).hexdigest()
    head = f'{{"format":"{FORMAT}","version":{version},"size_bytes":{len(body)},"xxh3_64":"{checksum}"}}\n'
    return head.encode() + body


BODY = CONTENT.partition(b"\n")[2]


def check(content: bytes) -> None:
    manifest_from_bytes(content, "x")
    SIGNING.check_manifest(*signed_parts(content), "x")


@settings(max_examples=300)
@given(st.integers(0, len(BODY) - 1), st.integers(1, 255))
def test_no_byte_can_be_another_one_even_with_the_right_checksum(place: int, mask: int) -> None:
    check(with_header(BODY))
    altered = BODY[:place] + bytes([BODY[place] ^ mask]) + BODY[place + 1 :]
    with pytest.raises((NotSigned, CorruptData)):
        check(with_header(altered))


def test_another_version_and_a_second_signature_are_noticed() -> None:
    with pytest.raises(NotSigned):
        check(with_header(BODY, 3))
    code = signed_parts(CONTENT)[0]
    twice = BODY.replace(b'"properties":{', f'"properties":{{"{SIGNATURE}":"{code}",'.encode(), 1)
    with pytest.raises(NotSigned):
        check(with_header(twice))


def test_a_name_cannot_pass_for_a_signature() -> None:
    named = replace(make_manifest(), job_name=f'"{SIGNATURE}":"{"0" * 64}"')
    content = b"".join(manifest_to_parts(named, SIGNING.code_of_manifest))
    check(content)
    assert signed_parts(b"".join(manifest_to_parts(named)))[0] == ""
