"""`tidegate package`: an archive from which another interpreter runs this package."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidegate.cli.main import main
from tidegate.cli.packages import pack
from tidegate.model.errors import Misuse
from tidegate.wire.versions import PYTHON_VERSION

BARE = str(Path(sys.base_prefix, "bin", f"python{PYTHON_VERSION}"))
"""The interpreter that the environment of these tests was made from: it has no packages of ours."""
TRY = "import msgspec, tidegate, tidegate.taskmanager.machines.subtask, sys; print(tidegate.__file__, msgspec.__file__)"


def test_a_bare_interpreter_imports_it_from_wherever_it_was_unpacked(tmp_path: Path) -> None:
    archive = tmp_path / "packages.tar.gz"
    packed = pack(archive, ["msgspec"], ["numpy", "pandas", "pyarrow", "grpcio"])
    assert {name.split()[0] for name in packed.names} >= {"tidegate", "msgspec", "cloudpickle", "pyspark"}
    place = tmp_path / "elsewhere"
    with tarfile.open(archive) as file:
        file.extractall(place, filter="data")
    found = subprocess.run(
        [BARE, "-E", "-s", "-S", "-c", f"import sys; sys.path.insert(0, {str(place)!r}); {TRY}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    ).stdout.split()
    assert [Path(name).is_relative_to(place) for name in found] == [True, True]
    names = {path.name for path in place.iterdir()}
    assert not names & {"pip", "numpy"}
    assert not (place / "pyspark" / "jars").exists()
    assert list(tmp_path.glob(".*.part")) == []


def test_it_says_what_to_do_with_the_archive(tmp_path: Path) -> None:
    archive = tmp_path / "packages.tgz"
    leave = [f"--without={name}" for name in ("numpy", "pandas", "pyarrow", "grpcio")]
    done = CliRunner().invoke(main, ["package", "--only", "msgspec", *leave, str(archive)])
    assert done.exit_code == 0, done.output
    assert f"packages for Python {PYTHON_VERSION} on " in done.output
    assert f"-D spark.archives={archive}#tidegate-packages" in done.output


@pytest.mark.parametrize(
    ("name", "only", "message"),
    [
        ("packages.rar", [], "must be a .tar.gz or a .tgz, as Spark unpacks it by its name, not packages.rar"),
        ("packages.tgz", ["nothing-of-this-name"], "not installed here: nothing-of-this-name"),
        ("not/there/packages.tgz", ["msgspec"], "cannot write .*: .*No such file or directory"),
    ],
)
def test_what_cannot_be_packed_is_one_error(tmp_path: Path, name: str, only: list[str], message: str) -> None:
    with pytest.raises(Misuse, match=message):
        pack(tmp_path / name, only, [])
