"""`tidegate cluster status` and `keep --stop` see a warm cluster: whose it is, since when, until when, and one that does not answer."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tidegate.cli.embedded.warm.facts import Facts, Standing, Use
from tidegate.cli.embedded.warm.keeper import locked
from tidegate.cli.embedded.warm.meeting import Channel, listen, warm_directory
from tidegate.cli.main import main
from tidegate.cli.tables import moment

FREE = Standing(41, Use.FREE, 0, 2, 60_000, Facts("1", "c", "i", "p", "u", {}, {}), 5_000, 7_000)
LENT = replace(FREE, use=Use.LENT, holder=77)
USER = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    made = warm_directory(tmp_path)
    made.mkdir(mode=0o700, parents=True)
    return made


@contextmanager
def kept(directory: Path, standing: Standing) -> Iterator[None]:
    """Answers one connection as a keeper does."""

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            Channel(connection).send(standing.to_json())

    with listen(directory) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        yield
        thread.join()


def status(*options: str) -> Result:
    return CliRunner().invoke(main, ["cluster", "status", *options])


def test_one_that_is_free_is_shown_with_its_end(directory: Path) -> None:
    with kept(directory, FREE):
        shown = status().stdout
    assert "A warm cluster is kept for programs: pid 41, 2 slots. " in shown
    assert f" It is kept for {USER} since {moment(5_000)}, and ends at {moment(67_000)} if no program comes." in shown


def test_one_that_is_lent_is_shown_with_its_program(directory: Path) -> None:
    with kept(directory, LENT):
        shown = status().stdout
    assert "pid 41, 2 slots, lent to a program (pid 77). " in shown
    assert f" since {moment(5_000)}; the program has it since {moment(7_000)}." in shown


@pytest.mark.parametrize(
    ("standing", "state", "program", "program_since", "ends"),
    [(FREE, "free", None, None, 67_000), (LENT, "lent", 77, 7_000, None)],
)
def test_json_has_it(
    directory: Path, standing: Standing, state: str, program: int | None, program_since: int | None, ends: int | None
) -> None:
    with kept(directory, standing):
        found = json.loads(status("--json").stdout)["warm-cluster"]
    assert found == {
        "pid": 41,
        "user": USER,
        "state": state,
        "since": 5_000,
        "program": program,
        "program-since": program_since,
        "slots": 2,
        "idle-timeout": 60_000,
        "ends": ends,
    }


def test_without_one_nothing_is_shown() -> None:
    assert "warm" not in status().stdout
    assert json.loads(status("--json").stdout)["warm-cluster"] is None


def test_of_another_directory_none_is_shown(directory: Path, tmp_path: Path) -> None:
    lock = locked(directory)
    assert json.loads(status("--json", "--dir", str(tmp_path / "other")).stdout)["warm-cluster"] is None
    os.close(lock)


def test_one_that_does_not_answer_is_shown(directory: Path) -> None:
    lock = locked(directory)
    assert f"A warm cluster (pid {os.getpid()}) does not answer: it is starting or ending, or stands" in status().stdout
    found = json.loads(status("--json").stdout)["warm-cluster"]
    os.close(lock)
    assert (found["pid"], found["state"], found["slots"]) == (os.getpid(), "silent", None)


SILENT = """
import pathlib, signal, sys
from tidegate.cli.embedded.warm.keeper import locked
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
kept = locked(pathlib.Path(sys.argv[1]))
print("up", flush=True)
sys.stdin.read()
"""


def test_one_that_does_not_answer_can_be_stopped(directory: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SILENT, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        stopped = CliRunner().invoke(main, ["cluster", "keep", "--stop"])
        assert stopped.stdout == f"Stopped the warm cluster (pid {process.pid}).\n"
        assert process.wait() == 0
