"""What the Tab key offers, as the shell asks for it, and where the scripts are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidegate.cli import completion
from tidegate.cli.main import SECTIONS, main
from tidegate.model.errors import Unreachable
from tidegate.pb import jobmanager_pb2 as pb

JOBS = [
    pb.JobStatus(job_id="a" * 32, name="clicks", state="RUNNING", start_ms=1),
    pb.JobStatus(job_id="b" * 32, name="totals", state="FINISHED", start_ms=2),
]


def offered(*words: str) -> list[str]:
    """As bash asks: the last word is what has been typed of it."""
    variables = {
        "_TIDEGATE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["tidegate", *words]),
        "COMP_CWORD": str(len(words)),
    }
    result = CliRunner().invoke(main, [], env=variables, prog_name="tidegate")
    assert result.exit_code == 0, (result.output, result.exception)
    return [line.partition(",")[2] for line in result.stdout.splitlines() if line]


class FakeClient:
    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def list_jobs(self, include_terminal: bool, timeout_s: float) -> list[pb.JobStatus]:
        return JOBS


def test_commands_and_options() -> None:
    assert offered("save") == ["savepoint"]
    assert offered("run", "--allow") == ["--allow-non-restored-state"]
    assert offered("run", "-parallelism", "3", "--claim") == ["--claim-mode"]
    assert offered("run", "--claim-mode", "no") == ["no-claim"]
    assert offered("run", "--paralellism", "3", "--claim") in ([], ["--claim-mode"]), (
        "what is wrong yet is no traceback"
    )


@pytest.mark.parametrize("words", [("cancel",), ("stop", "-d"), ("checkpoints",), ("rescale", "-p", "2"), ("upgrade",)])
def test_ids_of_jobs_are_offered_the_newest_first(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.cli.options.client_of", lambda *_: FakeClient())
    assert offered(*words, "") == ["b" * 32, "a" * 32]
    assert offered(*words, "a") == ["a" * 32]


def test_without_a_cluster_there_are_no_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object) -> FakeClient:
        raise Unreachable("no JobManager")

    monkeypatch.setattr("tidegate.cli.options.client_of", nowhere)
    assert offered("cancel", "") == []
    assert offered("cancel", "-m", "nonsense", "") == []


def test_savepoints_and_checkpoints_are_offered_the_newest_first(tmp_path: Path) -> None:
    for age, name in enumerate(("savepoint-1", "job/chk-7", "job/chk-8")):
        path = tmp_path / "sp" / name
        path.mkdir(parents=True)
        (path / "_metadata").touch()
        os.utime(path / "_metadata", (age, age))
    (tmp_path / "sp" / "job" / "chk-9").mkdir()  # not complete
    where = ["-D", f"execution.checkpointing.savepoint-dir={tmp_path / 'sp'}", "-D", f"tidegate.home={tmp_path}"]
    expected = [str(tmp_path / "sp" / name) for name in ("job/chk-8", "job/chk-7", "savepoint-1")]
    assert offered("run", *where, "-s", "") == expected
    assert offered("run", *where, "-s", f"{tmp_path}/sp/s") == expected[2:]
    assert offered("savepoint", *where, "--dispose", "") == expected
    assert offered("run", *where, "-s", "/nothing/like/it") == ["/nothing/like/it"], "the shell completes directories"


def test_keys_of_options_are_offered_with_the_sign_behind_them() -> None:
    assert offered("list", "-D", "rest.po") == ["rest.port="]
    assert "execution.checkpointing.interval=" in offered("run", "-D", "execution.checkpointing.")


def test_it_is_installed_by_one_command_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    (tmp_path / ".zshrc").write_text("# mine\n")
    for _ in range(2):
        result = CliRunner().invoke(main, ["completion", "install"])
        assert result.exit_code == 0, result.output
    script = tmp_path / ".local" / "share" / "tidegate" / "completion.zsh"
    assert script.read_text().startswith("#compdef tidegate")
    lines = (tmp_path / ".zshrc").read_text().splitlines()
    assert lines[0] == "# mine"
    assert [line for line in lines if str(script) in line] == [
        f"autoload -Uz compinit && compinit; . '{script}'  # completion of tidegate"
    ]
    assert CliRunner().invoke(main, ["completion", "install", "fish"]).exit_code == 0
    assert (tmp_path / ".config" / "fish" / "completions" / "tidegate.fish").exists()
    shown = CliRunner().invoke(main, ["completion", "show", "fish"]).stdout
    assert shown.strip() == (tmp_path / ".config" / "fish" / "completions" / "tidegate.fish").read_text().strip()


def test_a_shell_that_is_not_known_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    result = CliRunner().invoke(main, ["completion", "install"])
    assert (result.exit_code, result.stderr) == (2, "error: which shell? Name one of bash, zsh, fish\n")


def test_bash_completes_with_what_was_installed(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    completion.install("bash", main, tmp_path)
    (script,) = tmp_path.rglob("completion.bash")
    command = tmp_path / "bin" / "tidegate"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tidegate.cli.main "$@"\n')
    command.chmod(0o755)
    asked = 'COMP_WORDS=(tidegate checkpo); COMP_CWORD=1; _tidegate_completion tidegate; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        [bash, "--norc", "-c", f". {tmp_path}/.bashrc; {asked}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)},
    )
    assert done.stdout.split() == ["checkpoint", "checkpoints"], done.stderr
    assert str(script) in (tmp_path / ".bashrc").read_text()


def test_every_command_is_in_one_section_of_the_help() -> None:
    named = [name for names in SECTIONS.values() for name in names]
    assert sorted(named) == sorted(main.commands)
    shown = CliRunner().invoke(main, ["--help"]).stdout
    assert all(f"{title}:" in shown for title in SECTIONS)


def test_options_of_a_command_are_in_groups() -> None:
    shown = CliRunner().invoke(main, ["run", "--help"]).stdout
    own, python, general = (
        shown.index(f"\n{title}:\n") for title in ("Options", "Python", "Cluster and configuration")
    )
    assert (
        own < shown.index("--parallelism") < python < shown.index("--pyModule") < general < shown.index("--jobmanager")
    )
