"""`tidegate replay` in a process of its own, as users run it: the list, a replay, chance that is named, and what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.runtime.recorded_failures import RecordedFailure
from tidegate.taskmanager.recording.failures import Failure

UNSIGNED = ("-D", "tidegate.security.signing.enabled=false")
LIMIT_S = 120


@pytest.fixture(scope="module")
def failure(tmp_path_factory: pytest.TempPathFactory) -> Failure:
    """One of a function whose outputs follow the order of a set."""
    found = RecordedFailure(16, tmp_path_factory.mktemp("kept"), chance="set").run()
    assert found is not None
    return found


def replay(failure: Failure, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "tidegate.cli.main",
        "replay",
        "-D",
        f"tidegate.replay.directory={failure.folder.parent}",
    ]
    environment = {**os.environ, "TIDEGATE_HOME": str(failure.folder.parent.parent / "home"), "COLUMNS": "200"}
    return subprocess.run(
        [*command, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_without_a_name_it_lists_those_that_were_kept(failure: Failure) -> None:
    listed = replay(failure, "--json")
    assert [json.loads(line)["id"] for line in listed.stdout.splitlines()] == [failure.failure_id]
    shown = replay(failure)
    assert shown.returncode == 0, shown.stderr
    assert failure.failure_id in shown.stdout


def test_it_fails_again_and_the_order_of_a_set_is_named(failure: Failure) -> None:
    found = replay(failure, failure.failure_id[:-2], "--check", *UNSIGNED)
    assert found.returncode == 0, found.stdout + found.stderr
    assert re.search(r"It failed again with the same exception, at record \d+: Row\(value=112, ts=112\)", found.stdout)
    assert "the function depends on the order of a set" in found.stdout


def test_a_program_that_is_not_signed_is_refused(failure: Failure) -> None:
    found = replay(failure, failure.failure_id)
    assert found.returncode == 1
    assert "its program is not signed" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_record_that_did_not_come_is_one_line(failure: Failure) -> None:
    found = replay(failure, str(failure.folder), "--break-at", "100000", *UNSIGNED)
    assert found.returncode == 1
    assert "error: there is no record 100000: " in found.stderr


def test_a_copy_is_written_and_replayed(failure: Failure, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    found = replay(failure, failure.failure_id, "--redact", str(out), "--keep", "value", "--json", *UNSIGNED)
    assert found.returncode == 0, found.stdout + found.stderr
    said = json.loads(found.stdout)
    assert (said["copy"], said["reproduced"], said["needed"]) == (str(out), True, None)
    again = replay(failure, str(out), *UNSIGNED)
    assert again.returncode == 0, again.stdout + again.stderr
    assert said["message"] in again.stdout
    twice = replay(failure, failure.failure_id, "--redact", str(out), *UNSIGNED)
    assert (twice.returncode, "is there already" in twice.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--keep", "value"], "--keep is for --redact"),
        (["--redact", "copy", "--check"], "--redact writes a copy; replay that with the other options"),
    ],
)
def test_what_does_not_go_together_is_misuse(failure: Failure, arguments: list[str], told: str) -> None:
    found = replay(failure, failure.failure_id, *arguments, *UNSIGNED)
    assert found.returncode == 2
    assert told in found.stderr


def test_options_without_a_failure_are_misuse(failure: Failure) -> None:
    found = replay(failure, "--pdb")
    assert (found.returncode, found.stderr) == (
        2,
        "error: say which failure to replay; `tidegate replay` lists those that were kept\n",
    )
