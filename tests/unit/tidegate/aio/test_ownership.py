"""What is removed belongs to nobody any more, and what belongs to nobody is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.aio.ownership import OWNER_FILE, OwnedDirectory, make_owned, own, remove_all_but, share, sweep

OWNS = """
import sys
from pathlib import Path
from tidegate.aio.ownership import make_owned
owned = make_owned("x-", Path(sys.argv[1]))
(owned.directory / "inside").mkdir()
(owned.directory / "inside" / "file").write_text("x")
print(owned.directory, flush=True)
sys.stdin.read()
"""


def owner(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """A living process, and the directory that it has made."""
    command = [sys.executable, "-c", OWNS, str(parent)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_what_a_killed_process_left_goes_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    (dead, left), (living, used) = owner(tmp_path), owner(tmp_path)
    end(dead)
    try:
        assert left.exists()
        assert sweep(tmp_path, ["x-"]) == [left]
        assert os.listdir(tmp_path) == [used.name]
        assert (used / "inside" / "file").exists()
    finally:
        end(living)
    assert sweep(tmp_path, ["x-"]) == [used]
    assert os.listdir(tmp_path) == []


def test_a_child_that_inherited_the_lock_owns_the_directory_too(tmp_path: Path) -> None:
    owned = make_owned("x-", tmp_path)
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        pass_fds=[owned.descriptor],
        text=True,
    )
    owned.release()
    try:
        assert sweep(tmp_path, ["x-"]) == []
    finally:
        end(child)
    assert sweep(tmp_path, ["x-"]) == [owned.directory]


def test_two_may_own_one_directory(tmp_path: Path) -> None:
    first, second = own(tmp_path / "x-1"), own(tmp_path / "x-1")
    first.release()
    assert sweep(tmp_path, ["x-"]) == []
    second.release()
    second.release()
    assert sweep(tmp_path, ["x-"]) == [tmp_path / "x-1"]


def test_nothing_goes_whose_owner_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x-unmarked").mkdir()
    (tmp_path / "x-begun").mkdir()
    (tmp_path / "x-begun" / OWNER_FILE).touch()
    (tmp_path / "x-elsewhere").mkdir()
    (tmp_path / "x-elsewhere" / OWNER_FILE).write_text("another-machine 1\n")
    released(tmp_path / "y-other-name")
    released(tmp_path / "target")
    (tmp_path / "x-link").symlink_to(tmp_path / "target")
    before = sorted(os.listdir(tmp_path))
    assert sweep(tmp_path, ["x-"]) == []
    released(tmp_path / "x-another-user")
    monkeypatch.setattr("tidegate.aio.ownership.os.geteuid", lambda: os.getuid() + 1)
    assert sweep(tmp_path, ["x-"]) == []
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "x-another-user"])
    assert sweep(tmp_path / "missing", ["x-"]) == []


def released(directory: Path) -> OwnedDirectory:
    found = own(directory)
    found.release()
    return found


def test_a_sweep_that_was_broken_off_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released(tmp_path / "x-1")
    (tmp_path / "x-1" / "a").mkdir()

    def dies(path: str, ignore_errors: bool) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tidegate.aio.ownership.shutil.rmtree", dies)
        with pytest.raises(KeyboardInterrupt):
            sweep(tmp_path, ["x-"])
    assert sweep(tmp_path, ["x-"]) == [tmp_path / "x-1"]
    assert os.listdir(tmp_path) == []


def test_what_is_kept_is_no_longer_swept(tmp_path: Path) -> None:
    released(tmp_path / "x-1")
    for name in ("log", "checkpoints"):
        (tmp_path / "x-1" / name).mkdir()
    assert sweep(tmp_path, ["x-"], lambda path: remove_all_but(path, ["checkpoints"])) == [tmp_path / "x-1"]
    assert os.listdir(tmp_path / "x-1") == ["checkpoints"]
    assert sweep(tmp_path, ["x-"]) == []


def test_an_owner_removes_its_directory(tmp_path: Path) -> None:
    owned = make_owned("x-", tmp_path)
    (owned.directory / "file").write_text("x")
    owned.remove()
    assert os.listdir(tmp_path) == []


def test_who_shares_a_directory_keeps_it(tmp_path: Path) -> None:
    owned = make_owned("x-", tmp_path)
    shared = share(owned.directory)
    owned.release()
    assert shared is not None
    assert sweep(tmp_path, ["x-"]) == []
    shared.release()
    assert sweep(tmp_path, ["x-"]) == [owned.directory]
    assert share(owned.directory) is None
    assert not owned.directory.exists()
