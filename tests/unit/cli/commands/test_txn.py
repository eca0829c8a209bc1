"""`tidegate txn` on what a file sink left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.sqlite_sink import SqliteSink
from tests.conformance.sink_suite import as_checkpoint
from tests.unit.cli.test_commands import refused, tidegate
from tests.unit.taskmanager.operators.harness import spec, start
from tidegate.common.typeinfo import Types
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.spark.sink import SparkSink
from tidegate.connectors.two_phase_commit import TwoPhaseCommitSink


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def checkpoint(tmp_path: Path, output: Path) -> str:
    """Lists one pending file; another was closed behind it, and the job is gone."""
    sink = start(spec("sink", input_types=(Types.STRING(),), options={"sink": FileSink.for_text(str(output))}))
    sink.feed(["a"])
    path = as_checkpoint(sink.snapshot(1), tmp_path)
    sink.feed(["b"])
    sink.snapshot(2)
    sink.operator.close()
    return path


def listed(*arguments: object) -> list[dict[str, object]]:
    result = tidegate("txn", "list", "--json", *arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return [json.loads(line) for line in result.stdout.splitlines()]


def visible(output: Path) -> list[str]:
    return [line for path in output.glob("part-*") for line in path.read_text().splitlines()]


def test_list_tells_the_checkpoint_and_the_status_of_each(checkpoint: str, output: Path) -> None:
    found = [(t["checkpoint"], t["listed"], t["system"], t["operator"], t["status"]) for t in listed(checkpoint)]
    assert found == [(1, True, "files", "sink", "pending"), (2, False, "files", "sink", "pending")]
    table = tidegate("txn", "list", checkpoint)
    assert "2, not listed" in table.stdout
    assert tidegate("txn", "list", "--exit-code", checkpoint).exit_code == 1
    assert [t["operator"] for t in listed("--files", output)] == [None, None]  # nobody says whose they are


def test_commit_shows_what_the_checkpoint_lists_and_abort_removes_the_rest(checkpoint: str, output: Path) -> None:
    declined = tidegate("txn", "commit", checkpoint)  # no answer to the question
    assert declined.exit_code == 1
    assert visible(output) == []
    assert tidegate("txn", "commit", "--yes", checkpoint).stdout.startswith("committed .part-")
    assert visible(output) == ["a"]
    assert tidegate("txn", "commit", "--yes", checkpoint).stdout == "Nothing to commit.\n"
    assert tidegate("txn", "abort", "--yes", checkpoint).stdout.startswith("aborted .part-")
    assert [t["status"] for t in listed(checkpoint)] == ["committed"]
    assert visible(output) == ["a"]


def test_one_by_its_name(checkpoint: str, output: Path) -> None:
    first, second = (str(t["transaction"]) for t in listed(checkpoint))
    failed = tidegate("txn", "commit", "--yes", "--only", second, checkpoint)
    assert failed.exit_code == 1
    assert "none of the given checkpoints lists" in failed.stderr
    assert tidegate("txn", "abort", "--yes", "--only", first, checkpoint).stdout == f"aborted {first}\n"
    assert [t["status"] for t in listed(checkpoint)] == ["aborted", "pending"]
    assert "there is no transaction 'x'" in refused(tidegate("txn", "abort", "--only", "x", checkpoint), 2)


def test_what_was_removed_by_somebody_is_lost(checkpoint: str, output: Path) -> None:
    for path in output.glob(".part-*"):
        path.unlink()
    assert [t["status"] for t in listed(checkpoint)] == ["lost"]
    assert "is gone, so" in tidegate("txn", "commit", "--yes", checkpoint).stderr


def test_misuse(checkpoint: str, tmp_path: Path) -> None:
    assert "give a checkpoint or savepoint" in refused(tidegate("txn", "list"), 2)
    assert "not NAME=VALUE" in refused(tidegate("txn", "list", "--property", "x", checkpoint), 2)
    refused(tidegate("txn", "list", tmp_path / "none"), 1)


def test_transactions_of_a_sink_function_are_shown_and_left_to_it(tmp_path: Path) -> None:
    function = SqliteSink(str(tmp_path / "rows.db"))
    options = {"sink": TwoPhaseCommitSink(function)}
    running = start(spec("sink", input_types=(Types.STRING(),), options=options))
    path = as_checkpoint(running.snapshot(1), tmp_path)
    running.operator.close()
    (found,) = listed(path)
    assert (found["system"], found["status"], found["place"]) == ("function", "unknown", "['sink-0', 1]")
    assert "only that function can resolve it" in refused(tidegate("txn", "commit", "--yes", path), 2)


def test_epochs_of_to_spark_are_shown_with_their_rows_and_left_to_the_job(tmp_path: Path) -> None:
    running = start(spec("sink", input_types=(Types.STRING(),), options={"sink": SparkSink(lambda rows, epoch: None)}))
    running.feed(["a", "b"])
    path = as_checkpoint(running.snapshot(7), tmp_path)
    running.operator.close()
    (found,) = listed(path)
    assert (found["system"], found["status"], found["operator"]) == ("spark", "unknown", "sink")
    assert (found["checkpoint"], found["place"]) == (7, "2 rows")
    assert str(found["transaction"]).endswith("/7")
    assert "only that function can write it" in refused(tidegate("txn", "commit", "--yes", path), 2)
