"""Patterns of paths, and the columns in the names of the directories that they match."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.tidegate.connectors.test_file_source import drain, states
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files.file_system import list_files
from tidegate.model.errors import InvalidJob

FILES = ("a.csv", "b.csv", "b.txt", "dt=1/x.csv", "dt=2/x.csv", "dt=2/deep/y.csv", "dt=2/_hidden.csv", "[odd].csv")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("n\n1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.csv", ["[odd].csv", "a.csv", "b.csv"]),
        ("?.csv", ["a.csv", "b.csv"]),
        ("[!a].csv", ["b.csv"]),
        ("[a-b].*", ["a.csv", "b.csv", "b.txt"]),
        ("dt=*", ["dt=1/x.csv", "dt=2/deep/y.csv", "dt=2/x.csv"]),
        ("dt=*/*.csv", ["dt=1/x.csv", "dt=2/x.csv"]),
        ("**/x.csv", ["dt=1/x.csv", "dt=2/x.csv"]),
        ("dt=2/**.csv", ["dt=2/deep/y.csv", "dt=2/x.csv"]),
        ("[odd].csv", ["[odd].csv"]),
    ],
)
def test_patterns(tree: Path, pattern: str, found: list[str]) -> None:
    for path in (str(tree / pattern), f"file://{tree}/{pattern}"):
        assert [str(Path(file.path).relative_to(tree)) for file in list_files(path)] == found


def test_a_pattern_that_matches_nothing_is_told_of_unless_files_may_come(tree: Path) -> None:
    with pytest.raises(InvalidJob, match=r"no/\*\.csv holds no files"):
        list_files(str(tree / "no" / "*.csv"))
    assert list_files(str(tree / "no" / "*.csv"), may_be_empty=True) == []
    with pytest.raises(InvalidJob, match="does not exist"):
        list_files(str(tree / "no"))


def test_directories_below_a_pattern_are_columns(tree: Path) -> None:
    source = FileSource.for_csv(str(tree / "dt=*" / "x.csv"))
    assert source.schema.names == ["n", "dt"]
    assert drain(source, states(source))[0] == [{"n": 1, "dt": 1}, {"n": 1, "dt": 2}]
