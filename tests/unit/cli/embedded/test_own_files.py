"""The checkpoints that an embedded cluster leaves."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.cli.embedded.own_files import completed_in


def checkpoint(directory: Path, name: str, written_s: int) -> Path:
    made = directory / "job" / name
    made.mkdir(parents=True)
    (made / "_metadata").touch()
    os.utime(made / "_metadata", (written_s, written_s))
    return made


def test_complete_ones_are_found_oldest_first(tmp_path: Path) -> None:
    newer, older = checkpoint(tmp_path, "chk-1", 20), checkpoint(tmp_path, "chk-2", 10)
    (tmp_path / "job" / "chk-3").mkdir()
    assert completed_in(tmp_path) == [older, newer]


def test_one_that_is_removed_meanwhile_is_left_out(tmp_path: Path) -> None:
    """Its file is listed, and is gone when it is looked at."""
    stays = checkpoint(tmp_path, "chk-2", 10)
    goes = tmp_path / "job" / "chk-1"
    goes.mkdir()
    (goes / "_metadata").symlink_to(tmp_path / "gone")
    assert completed_in(tmp_path) == [stays]


def test_without_a_directory_there_are_none(tmp_path: Path) -> None:
    assert completed_in(tmp_path / "nowhere") == []
