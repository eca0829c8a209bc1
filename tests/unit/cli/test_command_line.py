"""Options are read as Flink's command line reads them, and what is no option is named with the nearest."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tidegate.cli.command_line import OF_JAVA, respelled
from tidegate.cli.main import main

JOB = """
from tidegate.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).map(lambda x: x).print()
env.execute("tiny")
"""
TAKES = {
    "-p": True,
    "--parallelism": True,
    "-d": False,
    "--detached": False,
    "-n": False,
    "--allow-non-restored-state": False,
    "-s": True,
    "--from-savepoint": True,
    "-D": True,
    "-pym": True,
    "-pyfs": True,
    "--pyFiles": True,
}


def tidegate(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def misused(result: Result) -> str:
    assert result.exit_code == 2, (result.output, result.exception)
    return result.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-p 3 job.py -p 4", "-p 3 job.py -p 4"),
        ("-parallelism 3 job.py", "--parallelism 3 job.py"),
        ("-parallelism=3 job.py", "--parallelism=3 job.py"),
        ("--fromSavepoint /s -n job.py --x", "--from-savepoint /s -n job.py --x"),
        ("-allowNonRestoredState job.py", "--allow-non-restored-state job.py"),
        ("-dn -p3 -Da=b -D c=d job.py", "-dn -p3 -Da=b -D c=d job.py"),
        ("-dp 3 job.py", "-dp 3 job.py"),
        ("-s -p job.py", "-s -p job.py"),
        ("-s /a/-b job.py", "-s /a/-b job.py"),
        ("-pyfs a.py --pyFiles b.py job.py", "-pyfs a.py --pyFiles b.py job.py"),
        ("-d -- -odd.py --x", "-d -- -odd.py --x"),
        ("-pym app --input x -d", "-pym app -- --input x -d"),
        ("-pym app -d x", "-pym app -d x"),
        ("-d - x", "-d - x"),
        ("", ""),
    ],
)
def test_options_before_a_program_are_spelled_as_declared(words: str, expected: str) -> None:
    assert respelled(words.split(), TAKES, {"-pym"}, is_mixed=False) == expected.split()


def test_options_may_stand_behind_the_arguments_of_a_command_without_a_program() -> None:
    assert respelled(["job", "-parallelism", "3", "x", "-d"], TAKES) == ["job", "--parallelism", "3", "x", "-d"]
    with pytest.raises(click.NoSuchOption, match="--nothing"):
        respelled(["job", "--nothing"], TAKES)


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("--paralellism", "--parallelism"),
        ("-paralellism", "--parallelism"),
        ("--paralellism=3", "--parallelism"),
        ("--from-savepiont", "--from-savepoint"),
        ("-detatched", "--detached"),
    ],
)
def test_an_option_that_is_none_is_named_with_the_nearest(word: str, nearest: str) -> None:
    with pytest.raises(click.NoSuchOption) as raised:
        respelled([word, "3", "job.py"], TAKES, is_mixed=False)
    assert raised.value.option_name == word.partition("=")[0]
    assert raised.value.possibilities == [nearest]


@pytest.mark.parametrize(
    "command",
    [
        ["run", "--local", "--paralellism", "3"],
        ["run-application", "--paralellism", "3"],
        ["info", "--paralellism", "3"],
        ["savepoint", "check", "--paralellism", "3"],
        ["upgrade", "--paralellism", "3", "a" * 32],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_wrong_option_is_never_taken_for_the_job_file(command: list[str], tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n{JOB}")
    line = misused(tidegate(*command, job))
    assert re.fullmatch(r"Error: No such option:? '?--paralellism'?\.? Did you mean '?--parallelism'?\?", line), (
        line
    )  # click 8.2 or newer
    assert not (tmp_path / "ran").exists()


def test_a_jobmanager_takes_no_wrong_option_for_an_argument_of_its_job(tmp_path: Path) -> None:
    line = misused(tidegate("jobmanager", "--rpc-prot", "1"))
    assert re.match(r"Error: No such option:? '?--rpc-prot\b", line), line
    assert "--rpc-port" in line


def test_an_option_behind_the_first_argument_is_not_taken_for_the_second(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    assert misused(tidegate("savepoint", "check", job, "-n", "/savepoint")) == (
        "Error: -n stands where PATH is expected: options stand before the first argument."
    )
    assert misused(tidegate("upgrade", "a" * 32, "--parallelism", "3", job)) == (
        "Error: --parallelism stands where job.py is expected: options stand before the first argument."
    )


def test_flinks_spelling_reaches_the_program(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(f"import sys\nassert sys.argv[1:] == ['-parallelism', '7'], sys.argv\n{JOB}")
    result = tidegate("info", "-parallelism", "3", job, "-parallelism", "7")
    assert result.exit_code == 0, result.output
    assert "2 vertices, 3 slots" in result.stdout


@pytest.mark.parametrize("name", [name for names in OF_JAVA for name in names])
def test_an_option_of_flink_that_means_nothing_here_says_why_and_what_to_do(name: str, tmp_path: Path) -> None:
    line = misused(tidegate("run", name, "x", tmp_path / "job.py"))
    assert line.startswith(f"Error: {name} "), line
    assert "No such option" not in line


@pytest.mark.parametrize("text", ["no_claim", "NO_CLAIM", "no-claim", "CLAIM"])
@pytest.mark.parametrize("option", ["-cm", "--claimMode", "--claim-mode", "-claimMode"])
def test_the_claim_mode_is_taken_as_flink_spells_it(option: str, text: str) -> None:
    result = tidegate("run", option, text, "-s", "/s", "-m", "127.0.0.1:1", __file__)
    assert result.stderr.startswith("error: no JobManager at 127.0.0.1:1"), result.output


def test_targets_are_local_or_a_cluster() -> None:
    assert "--local and -t remote are two targets" in misused(tidegate("run", "--local", "-t", "remote", __file__))
    assert "--local starts a cluster that ends with the program" in misused(
        tidegate("run", "-t", "local", "-d", __file__)
    )


@pytest.mark.parametrize(
    "command",
    [
        ["cancel"],
        ["cancel", "-s"],
        ["checkpoints"],
        ["checkpoint"],
        ["savepoint"],
        ["stop"],
        ["rescale", "-p", "2"],
        ["state", "get"],
        ["upgrade"],
    ],
    ids=" ".join,
)
def test_what_is_no_id_of_a_job_is_refused_before_anything_is_said(command: list[str]) -> None:
    """In the words of Flink 2.3: `flink cancel abc`."""
    more = {"state get": ["name", "key"], "upgrade": ["job.py"]}.get(" ".join(command), [])
    result = tidegate(*command, "abc", *more)
    assert 'Cannot parse JobID from "abc". The expected format is [0-9a-fA-F]{32}, e.g.' in misused(result)
    assert result.stdout == ""


def test_a_command_that_misses_its_job_says_so() -> None:
    assert misused(tidegate("cancel")) == "Error: Missing argument 'JOB'."
    assert misused(tidegate("cancel", "-s")) == "Error: Missing argument 'JOB'."
