from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.model.checkpoint import (
    COORDINATED_VERSION,
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    OperatorStateHandle,
    SegmentHandle,
    SnapshotType,
    StateHandle,
    StateRedistribution,
)
from tidegate.model.coordinators.operator_events import CoordinatorState, SourceSplit
from tidegate.model.errors import CorruptData, VersionMismatch
from tidegate.model.ids import CheckpointId, JobId, OperatorId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.wire import manifest as wire

JOB = JobId("a" * 32)
INLINE = StateHandle(3, "0123456789abcdef", data=b"abc")
IN_FILE = StateHandle(70_000, "fedcba9876543210", path="count-x-0")


def make_manifest() -> CheckpointManifest:
    keyed = SegmentHandle("count", KeyGroupRange(64, 66), (0, 5, 5, 9), IN_FILE)
    offsets = OperatorStateHandle("splits", StateRedistribution.UNION, 2, INLINE)
    operators = (
        OperatorState(OperatorId("b" * 32), "source", "numbers", 2, 128, {0: OperatorSnapshot((), (offsets,))}),
        OperatorState(
            OperatorId("c" * 32), "", "wähle", 2, 128, {1: OperatorSnapshot((keyed,), ())}, finished=frozenset({0})
        ),
    )
    return CheckpointManifest(
        JOB, "a job", CheckpointId(7), 1_700_000_000_000, SnapshotType.CHECKPOINT, operators, generation="g" * 32
    )


def to_bytes(manifest: CheckpointManifest) -> bytes:
    return b"".join(wire.manifest_to_parts(manifest))


CONTENT = to_bytes(make_manifest())


def test_it_comes_back_as_it_was() -> None:
    assert wire.manifest_from_bytes(CONTENT, "x") == make_manifest()


def test_equal_manifests_have_equal_bytes() -> None:
    assert to_bytes(make_manifest()) == CONTENT
    twelve = {index: OperatorSnapshot() for index in range(12)}
    backwards = dict(reversed(twelve.items()))

    def with_parts(subtasks: dict[int, OperatorSnapshot], properties: dict[str, str]) -> bytes:
        operator = OperatorState(OperatorId("d" * 32), "", "map", 14, 128, subtasks, frozenset({13, 12}))
        return to_bytes(replace(make_manifest(), operators=(operator,), properties=properties))

    content = with_parts(twelve, {"a": "1", "b": "2"})
    assert content == with_parts(backwards, {"b": "2", "a": "1"})
    line = json.loads(content.splitlines()[2])
    assert list(line["subtasks"]) == [str(index) for index in range(12)], "by number, not by text"
    assert line["finished"] == [12, 13]


def test_outsiders_read_it_as_json_lines() -> None:
    header, head, *operators = [json.loads(line) for line in CONTENT.decode().splitlines()]
    assert header["format"] == "tidegate-checkpoint"
    assert head["checkpoint_id"] == 7
    assert [operator["name"] for operator in operators] == ["numbers", "wähle"]
    assert operators[1]["subtasks"]["1"]["keyed"][0]["key_groups"] == [64, 66]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
def test_every_changed_byte_is_noticed(place: int, mask: int) -> None:
    damaged = bytearray(CONTENT)
    damaged[place] ^= mask
    with pytest.raises(CorruptData, match="/d/_metadata"):
        wire.manifest_from_bytes(bytes(damaged), "/d/_metadata")


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(CONTENT) - 1))
def test_every_cut_is_noticed(length: int) -> None:
    with pytest.raises(CorruptData, match=r"/d/_metadata (is empty|is cut off|does not begin)"):
        wire.manifest_from_bytes(CONTENT[:length], "/d/_metadata")


def test_what_follows_the_end_is_noticed() -> None:
    with pytest.raises(CorruptData, match="is too long"):
        wire.manifest_from_bytes(CONTENT + b"\n", "x")


def test_an_intact_file_of_another_version_is_told_apart_from_a_damaged_one() -> None:
    newer = to_bytes(replace(make_manifest(), version=4))
    with pytest.raises(VersionMismatch, match="x has checkpoint format version 4"):
        wire.manifest_from_bytes(newer, "x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parallelism": 0}, "the parallelism 0 is not between 1 and the maximum 128"),
        ({"parallelism": 1}, "subtask 1 of an operator with parallelism 1"),
        ({"max_parallelism": 65}, "key groups 64 to 66 are not within the 65 that exist"),
    ],
)
def test_numbers_that_do_not_fit_together_are_named(change: dict[str, int], message: str) -> None:
    manifest = make_manifest()
    wrong = replace(manifest, operators=(manifest.operators[0], replace(manifest.operators[1], **change)))  # type: ignore[arg-type]
    with pytest.raises(CorruptData, match=f"x line 4: .*{message}|x line 4: {message}"):
        wire.manifest_from_bytes(to_bytes(wrong), "x")


def test_the_state_of_a_coordinator_comes_back_and_is_readable() -> None:
    waiting = CoordinatorState((SourceSplit("a@0", b"\x00\xff", 7), SourceSplit("b@0", b"")))
    source, other = make_manifest().operators
    manifest = replace(
        make_manifest(), operators=(replace(source, coordinator=waiting), other), version=COORDINATED_VERSION
    )
    content = to_bytes(manifest)
    assert wire.manifest_from_bytes(content, "x") == manifest
    header, _, first, second = [json.loads(line) for line in content.splitlines()]
    assert header["version"] == COORDINATED_VERSION
    assert [split["split_id"] for split in first["coordinator"]["unassigned"]] == ["a@0", "b@0"]
    assert "coordinator" not in second
