"""What `tidegate new` writes and refuses. Whether it runs is in `e2e/test_new_project.py`."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.unit.cli.test_commands import refused
from tidegate.cli.main import main
from tidegate.cli.new_project import files_of


def make(name: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.chdir(directory)
    return CliRunner().invoke(main, ["new", name])


def test_a_project_has_a_job_data_and_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = make("shop-alarms", tmp_path, monkeypatch)
    assert result.exit_code == 0, result.output
    project = tmp_path / "shop-alarms"
    written = {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}
    assert written == set(files_of("shop-alarms"))
    assert {
        "job.py",
        "tests/test_job.py",
        "tests/conftest.py",
        "data/orders.csv",
        "README.md",
        "pyproject.toml",
    } < written
    assert result.output.splitlines()[: len(written)] == [f"shop-alarms/{path}" for path in files_of("shop-alarms")]
    assert result.output.splitlines()[-3:] == ["Next:  cd shop-alarms", "       python job.py", "       pytest"]
    told = tomllib.loads((project / "pyproject.toml").read_text())
    assert told["project"]["name"] == "shop-alarms"
    for path in ("job.py", "tests/test_job.py"):
        ast.parse((project / path).read_text())
    assert not [path for path, text in files_of("x").items() if "$" in text and path != "README.md"]
    assert "$ python job.py" in files_of("x")["README.md"]


def test_an_empty_folder_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    assert make("mine", tmp_path, monkeypatch).exit_code == 0
    assert (tmp_path / "mine" / "job.py").exists()


def test_what_is_there_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not lose me")
    said = refused(make("mine", tmp_path, monkeypatch), 2)
    assert said == "mine is a folder that is not empty; nothing was written. Choose another name, or remove it"
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    (tmp_path / "file").write_text("")
    assert refused(make("file", tmp_path, monkeypatch), 2).startswith("file is a file; nothing was written.")


@pytest.mark.parametrize(
    "name",
    ["", "../up", "a/b", ".hidden", "1st", "a--b", "a b", "ä", "-x", "a\n", "x" * 65, "json", "tidegate", "class"],
)
def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["new", "--", name])
    assert refused(result, 2).startswith(f"{name!r} cannot be the name of a project: ")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *_: object, **__: object) -> int:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", full)
    assert refused(make("mine", tmp_path, monkeypatch), 1) == "cannot write mine/job.py: No space left on device"
