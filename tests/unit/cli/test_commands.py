"""Commands that need no cluster, and how they tell what is wrong: one line, an exit code, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tidegate.cli.commands.cluster import NOT_SEEN
from tidegate.cli.main import main

JOB = """
from tidegate.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).map(lambda x: x).name("double").print()
env.execute("tiny")
"""
NOWHERE = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TIDEGATE_CONFIG", "TIDEGATE_CONF_DIR", "TIDEGATE_JOBMANAGER_RPC_PORT", "TIDEGATE_REST_PORT"):
        monkeypatch.delenv(variable, raising=False)


def tidegate(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def written(folder: Path, text: str, name: str = "job.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refused(result: Result, exit_code: int) -> str:
    """The one line on stderr."""
    assert result.exit_code == exit_code, (result.output, result.exception)
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    return lines[0].removeprefix("error: ")


def test_info_shows_the_plan_and_runs_nothing(tmp_path: Path) -> None:
    result = tidegate("info", "-p", 3, written(tmp_path, JOB))
    assert result.exit_code == 0
    assert "Job 'tiny': 2 vertices, 3 slots" in result.stdout
    assert "REBALANCE from 1" in result.stdout


def test_a_missing_job_file_is_misuse(tmp_path: Path) -> None:
    line = refused(tidegate("run", "--local", tmp_path / "none.py"), 2)
    assert line == f"cannot read the job file {tmp_path}/none.py: No such file or directory"
    assert "is a directory" in refused(tidegate("run", "--local", tmp_path), 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import nothing_like_it",
            "job.py raised ModuleNotFoundError: No module named 'nothing_like_it' (job.py, line 1)",
        ),
        ("def f(:\n", "job.py is not a Python program: invalid syntax ({path}, line 1)"),
        ("\n1/0\n", "job.py raised ZeroDivisionError: division by zero (job.py, line 2)"),
        ("x = 1", "job.py ended without a job; call env.execute() at its end"),
    ],
)
def test_a_program_that_builds_no_graph_is_told_by_line(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    assert refused(tidegate("info", path), 1) == message.format(path=path)


class Anywhere:
    """A cluster that needs no JobManager: nothing is submitted to it."""

    def __enter__(self) -> Anywhere:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def cluster(self) -> None:
        """It answers."""


def test_a_program_that_ends_well_without_a_job_ends_as_with_flink_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`flink run -py` of Flink 2.3 with `env.from_collection([1, 2]).print()` and no `execute()`: exit code 0, nothing
    on either stream but what the program printed (run 2026-11-28, no cluster)."""
    monkeypatch.setattr("tidegate.cli.commands.run.client_of", lambda *_: Anywhere())
    path = written(tmp_path, "print('done')")
    for command in (["run", path], ["run", "--local", path]):
        result = tidegate(*command)
        assert result.exit_code == 0, result.output
        assert result.stdout == "done\n"
        assert result.stderr.splitlines()[-1] == (
            "job.py has ended and submitted no job: it did not call env.execute()."
        )
    for needed in ("--job-id=" + "a" * 32, f"--submitted-file={tmp_path / 'submitted'}"):
        assert refused(tidegate("run", needed, path), 1) == (
            "job.py ended without a job; call env.execute() at its end"
        )


def test_the_traceback_is_there_when_asked_for(tmp_path: Path) -> None:
    result = tidegate("info", "--verbose", written(tmp_path, "\n1/0\n"))
    assert 'job.py", line 2, in <module>' in result.stderr


def test_a_program_may_end_itself(tmp_path: Path) -> None:
    assert tidegate("info", written(tmp_path, "raise SystemExit(7)")).exit_code == 7


def test_arguments_and_neighbours_are_the_programs_own(tmp_path: Path) -> None:
    written(tmp_path, "NAME = 'neighbour'", "cli.py")
    text = f"import sys, cli\nassert sys.argv[1:] == ['-x', '--local'], sys.argv\nassert cli.NAME == 'neighbour'\n{JOB}"
    result = tidegate("info", written(tmp_path, text), "-x", "--local")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-D", "rest.prot=1"], "bad configuration: -D: unknown option 'rest.prot'; did you mean 'rest.port'?"),
        (["-D", "execution.checkpointing.timeout=soon"], "'soon' is not a duration"),
        (["--jobmanager", "nonsense"], "--jobmanager 'nonsense' is not host:port, such as localhost:6123"),
        (["--local", "--detached"], "--local starts a cluster that ends with the program"),
    ],
)
def test_bad_options_are_misuse(tmp_path: Path, arguments: list[str], message: str) -> None:
    assert message in refused(tidegate("run", *arguments, written(tmp_path, JOB)), 2)


@pytest.mark.parametrize("command", [["list"], ["cancel", "a" * 32], ["checkpoints", "a" * 32]])
def test_no_job_manager_at_the_address_is_one_line(command: list[str]) -> None:
    line = refused(CliRunner().invoke(main, [*command, "-m", NOWHERE]), 1)
    assert line.startswith(f"no JobManager at {NOWHERE}; start one with `tidegate cluster start`")


def test_run_says_so_before_the_program_does_its_work(tmp_path: Path) -> None:
    path = written(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')\n{JOB}")
    assert "no JobManager at" in refused(tidegate("run", "-m", NOWHERE, path), 1)
    assert not (tmp_path / "ran").exists()


def test_status_and_stop_without_a_cluster(tmp_path: Path) -> None:
    status = tidegate("cluster", "status", "--dir", tmp_path)
    assert (status.exit_code, status.stdout) == (1, f"No cluster in {tmp_path}/clusters/default: {NOT_SEEN}\n")
    stop = tidegate("cluster", "stop", "--dir", tmp_path)
    assert (stop.exit_code, stop.stdout) == (0, f"No cluster is running in {tmp_path}/clusters/default.\n")


def test_a_secret_in_the_command_line_is_warned_of_by_its_name_alone() -> None:
    result = tidegate("list", "-D", "security.ssl.internal.keystore-password=hush", "--jobmanager", NOWHERE)
    warning, error = result.stderr.strip().splitlines()
    assert warning == (
        "warning: other users of this machine can read the value of security.ssl.internal.keystore-password in the command line; put it into "
        "config.yaml, which you alone can read, or into the variable TIDEGATE_SECURITY_SSL_INTERNAL_KEYSTORE_PASSWORD"
    )
    assert error.startswith("error: no JobManager")
    assert "hush" not in result.output


@pytest.mark.parametrize("text", ["soon", "-1 min", "0 s", "10 parsecs"])
def test_an_idle_limit_that_is_no_duration_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    line = refused(tidegate("cluster", "keep", "--idle-timeout", text), 2)
    assert "tidegate.warm-cluster.idle-timeout" in line
    assert text in line
    assert list(tmp_path.iterdir()) == []


def test_no_cluster_is_kept_on_a_build_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("CI", "true")
    line = refused(tidegate("cluster", "keep"), 2)
    assert line.startswith("the variable CI is set: on build servers each program starts a cluster of its own")


def test_stopping_where_none_is_kept_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    result = tidegate("cluster", "keep", "--stop")
    assert (result.exit_code, result.stdout) == (0, f"No warm cluster is kept in {tmp_path}/clusters/warm.\n")
