"""`tidegate cluster keep`: the next program runs on the cluster that is kept, as on one of its own, and nothing hangs when it is not there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.cluster import ENTRY, JOBS, MARK, REPOSITORY, marked
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tidegate.cli.embedded.warm.borrowed import standing_of
from tidegate.cli.embedded.warm.facts import Use

LIMIT_S = 240
PROGRAM = JOBS / "warm_program.py"
pytestmark = pytest.mark.timeout(2 * LIMIT_S)


@pytest.fixture
def tmp() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tg-") as made:
        yield Path(made)
        for member in marked(Path(made).name):
            member.kill()


def environment(tmp: Path, **others: str) -> dict[str, str]:
    own = {MARK: tmp.name, "TMPDIR": str(tmp), "PYTHONPATH": str(REPOSITORY), "TIDEGATE_HOME": str(tmp / "home")}
    return {**{name: text for name, text in os.environ.items() if name != "CI"}, **own, **others}


def called(tmp: Path, *command: str | Path, **others: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, command)],
        env=environment(tmp, **others),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def kept(tmp: Path, *options: str) -> int:
    """Keeps a cluster; returns the pid of its keeper."""
    done = called(tmp, *ENTRY, "cluster", "keep", *options)
    found = re.search(r"A warm cluster is kept: pid (\d+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    return int(found[1])


def warm(tmp: Path) -> Path:
    return tmp / "home" / "clusters" / "warm"


def test_programs_run_on_it_and_a_lost_one_is_told(tmp: Path) -> None:
    keeper = kept(tmp, "--slots", "1")
    runs = [called(tmp, PROGRAM, "run") for _ in range(2)]
    by = set()
    for run in runs:
        assert run.returncode == 0, run.stderr
        assert (
            run.stderr.count(f"Runs on the warm cluster (pid {keeper}); `tidegate cluster keep --stop` ends it.") == 1
        )
        assert "Starting a cluster for this program" not in run.stderr
        printed, over = run.stdout.splitlines()
        assert over == "over", "what a job prints is there when execute() returns"
        found = re.fullmatch(rf"7 by (\d+) as {os.getuid()}", printed)
        assert found is not None, printed
        by.add(found[1])
    assert len(by) == 1, "the same TaskManager"
    status = called(tmp, *ENTRY, "cluster", "status")
    assert f"A warm cluster is kept for programs: pid {keeper}, 1 slot." in status.stdout
    again = called(tmp, *ENTRY, "cluster", "keep", "--slots", "1")
    assert f"A warm cluster is kept already: pid {keeper}" in again.stdout, again.stderr
    private = [path for path in warm(tmp).parent.rglob("*") if path.is_dir() and path.parent.name == "clusters"]
    assert {path.stat().st_mode & 0o777 for path in private} == {0o700}

    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: not marked(tmp.name), HANG_LIMIT_S, "all its processes have ended")
    alone = called(tmp, PROGRAM, "run")
    assert alone.returncode == 0, alone.stderr
    assert "The warm cluster is not used: its process was killed. `tidegate cluster keep` starts one." in alone.stderr
    assert "Starting a cluster for this program" in alone.stderr
    assert alone.stdout.splitlines()[-1] == "over"
    assert marked(tmp.name) == []


def test_a_job_that_is_left_ends_with_its_program(tmp: Path) -> None:
    """The program ends, or is killed; the next one finds a cluster without its job."""
    keeper = kept(tmp, "--slots", "1")
    left = called(tmp, PROGRAM, "left")
    assert left.returncode == 0, left.stderr
    assert "checkpoint kept: " in left.stderr, "as at the end of an embedded cluster"
    wait_until(lambda: is_free(tmp), HANG_LIMIT_S, "another cluster is kept")
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), "left", "killed"],
        env=environment(tmp),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        job_id = process.stdout.readline().removeprefix("left ").strip()
        standing = standing_of(warm(tmp))
        assert standing is not None
        assert (standing.use, standing.holder) == (Use.LENT, process.pid)
        beside = called(tmp, *ENTRY, "cluster", "keep", "--slots", "2")
        assert beside.returncode != 0
        assert f"a program (pid {process.pid}) runs on it" in beside.stderr
        before = {member.pid for member in psutil.Process(keeper).children()}
        process.kill()
        process.communicate()
    wait_until(lambda: is_free(tmp), HANG_LIMIT_S, "another cluster is kept")
    assert not before & {member.pid for member in psutil.Process(keeper).children()}
    after = called(tmp, PROGRAM, "run")
    assert f"Runs on the warm cluster (pid {keeper})" in after.stderr
    assert re.search(rf"an earlier run was killed and left checkpoint \S+/{job_id}/chk-\d+", after.stderr), after.stderr
    stopped = called(tmp, *ENTRY, "cluster", "keep", "--stop")
    assert stopped.stdout == f"Stopped the warm cluster (pid {keeper}).\n"
    assert marked(tmp.name) == []


def test_it_ends_when_no_program_comes(tmp: Path) -> None:
    keeper = kept(tmp, "--slots", "1", "--idle-timeout", "1 s")
    wait_until(lambda: not psutil.pid_exists(keeper), HANG_LIMIT_S, "its time is over")
    assert marked(tmp.name) == []
    assert sorted(path.name for path in warm(tmp).parent.iterdir()) == ["warm"]
    assert standing_of(warm(tmp)) is None


def is_free(tmp: Path) -> bool:
    standing = standing_of(warm(tmp))
    return standing is not None and standing.use is Use.FREE
