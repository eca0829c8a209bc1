"""`tidegate ha check`: stores that keep their conditions, and some that do not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from obstore.store import MemoryStore

from tidegate.cli.main import main
from tidegate.high_availability import directory_conditions
from tidegate.high_availability.object_store import bucket as buckets
from tidegate.high_availability.object_store.bucket import Bucket
from tidegate.high_availability.object_store.conditions import ConditionsIgnored, check_conditions
from tidegate.high_availability.object_store.lease import Version

URL = "s3://somewhere/ha"


class Careless(Bucket):
    """Writes whatever was expected."""

    def write(self, name: str, content: bytes, expected: Version | None) -> Version | None:
        self.put(name, content)
        found = self.read(name)
        return None if found is None else found.version


class LooksFirst(Bucket):
    """Looks, lets others look, and writes."""

    together = threading.Barrier(4)

    def write(self, name: str, content: bytes, expected: Version | None) -> Version | None:
        found = self.read(name)
        if (None if found is None else found.version) != expected:
            return None
        if threading.current_thread().name.startswith("race"):
            try:
                self.together.wait(0.2)
            except threading.BrokenBarrierError:
                self.together.reset()
        self.put(name, content)
        found = self.read(name)
        return None if found is None else found.version


@pytest.fixture(params=[Bucket, Careless, LooksFirst])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Bucket]]:
    kind: type[Bucket] = request.param
    store = MemoryStore()

    def opened(url: str, answer_s: float) -> Bucket:
        return kind(store, "ha", url)

    monkeypatch.setattr(buckets, "open_bucket", opened)
    yield kind
    assert list(store.list()) == [], "what was probed is removed"


def checked(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["ha", "check", *arguments])


def test_a_bucket_is_judged_by_who_wins(kind: type[Bucket]) -> None:
    result = checked(URL, "--rounds", "5")
    if kind is Bucket:
        assert result.exit_code == 0, result.output
        assert "5 rounds, 4 writers at a time" in result.output
        assert f"{URL} can elect leaders: high-availability.type: object-store" in result.output
    else:
        assert result.exit_code == 1
        assert result.output.strip().startswith(f"error: {URL} cannot elect a leader:")
        told = "was created a second time (If-None-Match: *)" if kind is Careless else "more than one who created it"
        assert told in result.output


def test_a_job_manager_refuses_what_the_check_refuses(kind: type[Bucket]) -> None:
    bucket = buckets.open_bucket(URL, 1)
    if kind is Bucket:
        check_conditions(bucket)
    else:
        with pytest.raises(ConditionsIgnored, match="Two JobManagers could lead at the same time"):
            check_conditions(bucket)


def test_a_directory_of_a_local_disk_can_elect_leaders(tmp_path: Path) -> None:
    result = checked(str(tmp_path), "--rounds", "20")
    assert result.exit_code == 0, result.output
    assert "20 rounds, 4 writers at a time: exactly one had the lock in each" in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_directory_whose_locks_exclude_nobody_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_conditions, "flock", lambda descriptor, how: None)
    result = checked(str(tmp_path), "--rounds", "20")
    assert result.exit_code == 1
    assert "in 20 of 20 rounds not exactly one writer had the lock" in result.output


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("/proc/nothing", "cannot be written or locked"),
        ("hdfs://name/ha", "hdfs://name/ha is not the address of a bucket; write s3://BUCKET/PATH or gs://BUCKET/PATH"),
        ("s3://", "is not the address of a bucket"),
    ],
)
def test_what_is_no_place_is_named(url: str, told: str) -> None:
    result = checked(url)
    assert result.exit_code in (1, 2)
    assert told in result.output
