"""Log files that are full are renamed, and the oldest is removed."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.aio import inspection
from tidegate.aio.logs import set_up_logging
from tidegate.aio.rolling import Rolling, shift

PRINTS = """
import sys
from pathlib import Path
from tidegate.aio.rolling import Rolling, RollingOutput
output = RollingOutput(Path(sys.argv[1]), Rolling(max_bytes=100, keep=2))
for number in range(40):
    output.roll_when_full()
    (sys.stdout if number % 2 else sys.stderr).write(f"line {number:02}\\n")
    sys.stdout.flush()
"""


def test_what_a_daemon_prints_rolls(tmp_path: Path) -> None:
    """40 lines of 8 bytes, 13 to a file: the oldest 13 are gone."""
    file = tmp_path / "taskmanager.out"
    with file.open("ab") as out:
        subprocess.run([sys.executable, "-c", PRINTS, str(file)], stdout=out, stderr=out, check=True, timeout=60)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "taskmanager.out",
        "taskmanager.out.1",
        "taskmanager.out.2",
    ]
    found = "".join((tmp_path / f"taskmanager.out{end}").read_text() for end in (".2", ".1", ""))
    assert found == "".join(f"line {number:02}\n" for number in range(13, 40))
    assert (tmp_path / "taskmanager.out.2").stat().st_size == 104


def test_a_file_of_the_users_own_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "taskmanager.out").write_bytes(b"x" * 200)
    with (tmp_path / "mine").open("ab") as out:
        command = [sys.executable, "-c", PRINTS, str(tmp_path / "taskmanager.out")]
        subprocess.run(command, stdout=out, stderr=out, check=True, timeout=60)
    assert (tmp_path / "mine").read_text().count("line") == 40
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "taskmanager.out"]


@pytest.fixture
def _own_handlers() -> object:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    root.handlers.clear()
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("_own_handlers")
def test_a_log_rolls_and_its_old_files_are_listed_and_read(tmp_path: Path) -> None:
    set_up_logging("INFO", tmp_path / "taskmanager.log", None, rolling=Rolling(max_bytes=300, keep=2))
    for number in range(30):
        logging.getLogger("test").info("line %02d", number)
    names = [file.name for file in inspection.log_files()]
    assert names == ["taskmanager.log", "taskmanager.log.1", "taskmanager.log.2"]
    assert b"line 29" in inspection.read_own_log()
    assert b"line 29" not in inspection.read_log("taskmanager.log.1")
    assert all((tmp_path / name).stat().st_size <= 300 for name in names)


def test_none_may_be_kept(tmp_path: Path) -> None:
    file = tmp_path / "x.out"
    file.write_text("old")
    shift(file, 0)
    assert list(tmp_path.iterdir()) == []
