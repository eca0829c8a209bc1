"""What sources write about themselves comes back as it was, and only what is new is given."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from tidegate.model.errors import CorruptData
from tidegate.taskmanager.spark.streams.written import WrittenFiles


def test_files_come_back_and_only_new_ones_are_given(tmp_path: Path) -> None:
    first = WrittenFiles(tmp_path / "first", {})
    (tmp_path / "first" / "0").mkdir()
    (tmp_path / "first" / "0" / "0").write_text("v1")
    (tmp_path / "first" / "0" / ".0.crc").write_text("no")
    (tmp_path / "first" / "0" / "x.tmp").write_text("no")
    given = first.new()
    assert {name: zlib.decompress(content) for name, content in given.items()} == {"0/0": b"v1"}
    assert first.new() == {}
    second = WrittenFiles(tmp_path / "second", given)
    assert (tmp_path / "second" / "0" / "0").read_text() == "v1"
    assert second.new() == {}


def test_a_name_that_leads_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptData, match="not below its directory"):
        WrittenFiles(tmp_path / "here", {"../there": zlib.compress(b"")})
