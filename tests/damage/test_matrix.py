"""Every kind of damage to every kind of file of a checkpoint: a restore and ``savepoint check`` name the file and say what to do."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.cases import CASES
from tests.compat.kept import HERE, Kept, place_of, unpack
from tests.compat.outline import RELEASED, Outline
from tests.damage.kinds import DAMAGES, VICTIMS, names_of
from tests.unit.cli.test_commands import tidegate
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.model.errors import CorruptData, StorageError, TidegateError
from tidegate.store.checkpoints import CheckpointStorage

KEPT = HERE / "54b57c7"
ADVICE = "restore from another checkpoint"
JOB = """
from pathlib import Path
from tests.compat.cases import CASES
from tests.compat.outline import Outline

case = CASES[{case!r}]
case.build(Outline("checked", 2, None, Path({place!r}), case.configuration)).execute("checked")
"""


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    case = VICTIMS[request.getfixturevalue("victim")].case
    RELEASED.set()
    with place_of(case) as path:
        yield path
    RELEASED.clear()


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, since the path of a Unix socket may be 100 characters long."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield Path(path)


def refusal(case: str, location: str, directory: Path, place: Path) -> TidegateError:
    """Of the submission, or of the subtask that cannot read its state."""
    built = CASES[case].build(Outline("damaged", 2, None, place, CASES[case].configuration)).build()
    try:
        kept = Kept.read(location, built)
    except TidegateError as error:
        return error
    job = InProcessJob(built, directory, kept, 1, first_checkpoint=1000)
    job.start_failing()
    job.until(lambda: bool(job.errors), "a subtask fails", failing=True)
    job.cut_off()
    return job.errors[0].to_exception()


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("victim", VICTIMS)
def test_damage_is_told_by_file_with_what_to_do(
    victim: str, damage: str, directory: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = VICTIMS[victim].case
    location, _ = unpack(KEPT / f"{case}.tar.gz", directory, place)
    job = directory / "job.py"
    job.write_text(JOB.format(case=case, place=str(place)))
    path = VICTIMS[victim].find(location)
    DAMAGES[damage](path, monkeypatch)

    error = refusal(case, location, directory, place)
    assert isinstance(error, CorruptData | StorageError), error
    assert str(path) in error.message
    assert ADVICE in error.message

    checked = tidegate("savepoint", "check", "--open", job, location)
    assert checked.exit_code == 2, checked.output
    assert str(path) in checked.output
    assert ADVICE in checked.output


@pytest.mark.parametrize("victim", sorted({victim.case: name for name, victim in VICTIMS.items()}.values()))
def test_whole_checkpoints_pass_and_every_file_has_a_checksum(victim: str, directory: Path, place: Path) -> None:
    case = VICTIMS[victim].case
    location, _ = unpack(KEPT / f"{case}.tar.gz", directory, place)
    _, manifest = CheckpointStorage().read_checkpoint(location)
    files = [path for path in directory.rglob("*") if path.is_file() and {"chk", "shared"} & set(path.parts)]
    assert names_of(manifest, location) == set(files) - {Path(location) / "_metadata"}
    job = directory / "job.py"
    job.write_text(JOB.format(case=case, place=str(place)))
    checked = tidegate("savepoint", "check", "--open", job, location)
    assert (checked.exit_code, checked.output.splitlines()[-1]) == (0, "All state restores.")
