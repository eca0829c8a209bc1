from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from tidegate.model.errors import InvalidJob, UserFunctionError
from tidegate.model.ids import BlobKey
from tidegate.model.program import VertexProgram
from tidegate.taskmanager.spark.user_code import load_program, place_files

KEY = BlobKey("f" * 64)


@pytest.fixture(autouse=True)
def _same_path() -> Iterator[None]:
    path = list(sys.path)
    yield
    sys.path[:] = path


def test_files_of_the_job_can_be_imported_before_anything_of_the_same_name(tmp_path: Path) -> None:
    place_files({"shipped_module.py": KEY, "pack/__init__.py": KEY}, tmp_path, lambda key: b"answer = 42\n")
    assert importlib.import_module("shipped_module").answer == 42
    assert importlib.import_module("pack").answer == 42
    assert sys.path[0] == str(tmp_path)


def test_archives_are_on_the_path_too(tmp_path: Path) -> None:
    place_files({"libs/deps.zip": KEY}, tmp_path, lambda key: b"")
    assert sys.path[:2] == [str(tmp_path), str(tmp_path / "libs" / "deps.zip")]


@pytest.mark.parametrize("name", ["../out.py", "/etc/x.py", "a/../../b.py", ""])
def test_a_file_that_leads_out_of_the_directory_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidJob, match="must stay inside"):
        place_files({name: KEY}, tmp_path / "files", lambda key: b"")
    assert not (tmp_path / "out.py").exists()


def test_a_job_without_files_changes_nothing(tmp_path: Path) -> None:
    before = list(sys.path)
    place_files({}, tmp_path, lambda key: b"")
    assert sys.path == before


def test_a_program_comes_back() -> None:
    assert load_program(cloudpickle.dumps(VertexProgram(())), "map") == VertexProgram(())


class Explodes:
    def __reduce__(self) -> Any:
        return (int, ("not a number",))


def test_what_cannot_be_unpickled_is_explained() -> None:
    missing = cloudpickle.dumps(VertexProgram(())).replace(b"tidegate.model.program", b"tidegate.model.progrom")
    with pytest.raises(
        InvalidJob, match=r"map: module 'tidegate.model.progrom', which the job uses, cannot be imported"
    ):
        load_program(missing, "map")
    with pytest.raises(UserFunctionError, match="map: its program cannot be unpickled: ValueError"):
        load_program(cloudpickle.dumps(Explodes()), "map")
    with pytest.raises(InvalidJob, match="its program is a int"):
        load_program(cloudpickle.dumps(7), "map")
