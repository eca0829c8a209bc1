"""A job store that another version has written, or whose files are another cluster's, is refused before anything is read or removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.aio.jobmanager.test_kept_jobs import InMemory
from tidegate.jobmanager.service.high_availability.store_check import check_store
from tidegate.model.errors import TidegateError

OTHER = b"another-cluster\n"


def test_a_store_gets_a_name_and_keeps_it(tmp_path: Path) -> None:
    entries = InMemory()
    check_store(entries, str(tmp_path), has_files_elsewhere=True)
    named = dict(entries.held)
    name = (tmp_path / "cluster").read_text().strip()
    assert name in named["store"].decode()
    check_store(entries, str(tmp_path), has_files_elsewhere=True)
    assert entries.held == named
    assert (tmp_path / "cluster").read_text().strip() == name


def test_the_file_is_made_by_the_next_leader_where_the_first_died_before_it(tmp_path: Path) -> None:
    entries = InMemory()
    check_store(entries, str(tmp_path), has_files_elsewhere=True)
    (tmp_path / "cluster").unlink()
    check_store(entries, str(tmp_path), has_files_elsewhere=True)
    assert (tmp_path / "cluster").exists()


def test_a_store_in_one_directory_needs_no_file(tmp_path: Path) -> None:
    entries = InMemory()
    check_store(entries, str(tmp_path), has_files_elsewhere=False)
    assert list(entries.held) == ["store"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("entry", "file", "plans", "told"),
    [
        (None, OTHER, False, "another cluster .another-cluster., which the servers .* do not know"),
        (b'{"format":1,"cluster":"c1"}', OTHER, False, "another cluster .another-cluster. than this one .c1."),
        (b'{"format":1,"cluster":"c1"}', None, True, "does not hold the files of this cluster .c1., which has jobs"),
        (
            b'{"format":2,"cluster":"c1","written_by":"tidegate 9.1","more":[]}',
            b"c1\n",
            True,
            "format 2, written by tidegate 9.1; this version, tidegate .*, knows format 1. Nothing was changed; start tidegate 9.1 again",
        ),
        (b"\xff nothing of ours", b"c1\n", True, "the entry 'store' .* is damaged"),
    ],
)
def test_what_does_not_fit_is_refused_in_words_and_stays_as_it_is(
    tmp_path: Path, entry: bytes | None, file: bytes | None, plans: bool, told: str
) -> None:
    entries = InMemory()
    if entry is not None:
        entries.held["store"] = entry
    if plans:
        entries.held["execution-plans/" + "a" * 32] = b"{}"
    if file is not None:
        (tmp_path / "cluster").write_bytes(file)
    held = dict(entries.held)
    with pytest.raises(TidegateError, match=told):
        check_store(entries, str(tmp_path), has_files_elsewhere=True)
    assert entries.held == held
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == ({"cluster": file} if file else {})
