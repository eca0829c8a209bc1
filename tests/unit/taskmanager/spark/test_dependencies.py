"""Archives and interpreters of a job, in the process of a subtask."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.model.errors import ExternalError, InvalidJob
from tidegate.taskmanager.spark.dependencies import check_interpreter, use_archives, use_requirements


@pytest.fixture(autouse=True)
def _same_place() -> Iterator[None]:
    directory, path = Path.cwd(), list(sys.path)
    yield
    os.chdir(directory)
    sys.path[:] = path


def zipped(**members: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


def tarred(name: str, text: str) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
    return content.getvalue()


def test_archives_lie_in_the_working_directory_under_their_targets(tmp_path: Path) -> None:
    files = {
        "python-archives/data/data.zip": zipped(one="1"),
        "python-archives/more.tar.gz/more.tar.gz": tarred("two", "2"),
    }
    use_archives(files, tmp_path / "archives")
    assert Path("data/one").read_text() + Path("more.tar.gz/two").read_text() == "12"
    assert sorted(path.name for path in Path().iterdir()) == ["data", "more.tar.gz"]


def test_without_archives_the_working_directory_stays(tmp_path: Path) -> None:
    before = Path.cwd()
    use_archives({"python-requirements/requirements.txt": b""}, tmp_path)
    assert Path.cwd() == before


def without_name(content: bytes) -> bytes:
    return content.replace(b"one", b"\0ne")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tar.gz", b"no archive"),
        ("a.tar.gz", tarred("../out", "x")),
        ("a.zip", b"no archive"),
        ("a.zip", without_name(zipped(one="1"))),
        ("a.zip", zipped(one="1")[:-30]),
    ],
    ids=["broken", "hostile", "no zip", "without a name", "cut"],
)
def test_a_broken_or_hostile_archive_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises(InvalidJob, match=f"archive '{name}' cannot be unpacked"):
        use_archives({f"python-archives/a/{name}": content}, tmp_path / "archives")
    assert not (tmp_path / "out").exists()


def test_requirements_that_are_there_are_not_installed_again(tmp_path: Path) -> None:
    files = {"python-requirements/requirements.txt": b"# nothing\n"}
    use_requirements(files, tmp_path)
    (installed,) = tmp_path.glob("*/installed")
    first = installed.stat().st_mtime_ns
    use_requirements(files, tmp_path)
    assert installed.stat().st_mtime_ns == first
    assert sys.path[0] == str(installed.parent / "lib")


def test_requirements_that_cannot_be_had_are_told(tmp_path: Path) -> None:
    files = {
        "python-requirements/requirements.txt": b"no-such-package-of-tidegate==1.0\n",
        "python-requirements/packages.zip": zipped(),
    }
    with pytest.raises(ExternalError, match="no-such-package-of-tidegate"):
        use_requirements(files, tmp_path)


def test_the_interpreter_that_runs_is_the_one_that_the_job_may_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("python", raising=False)
    check_interpreter(None)
    check_interpreter(sys.executable)
    assert os.environ.pop("python") == sys.executable
    with pytest.raises(InvalidJob, match="start the TaskManagers with that interpreter"):
        check_interpreter("/nowhere/python9")
