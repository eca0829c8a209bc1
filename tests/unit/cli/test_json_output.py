"""`--json` of every command that lists or shows: what it prints can be read again, and has what the table has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tidegate.cli.commands.savepoint_check import check
from tidegate.cli.main import main
from tidegate.pb import jobmanager_pb2 as pb

JOB_ID = "a" * 32
JOB = """
from tidegate.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).map(lambda x: x).name("double").print()
env.execute("tiny")
"""


def tidegate(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def documents(result: Result) -> list[Any]:
    assert result.exit_code == 0, (result.output, result.exception)
    return [json.loads(line) for line in result.stdout.splitlines()]


def leaves(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for own, inner in command.commands.items():
            yield from leaves(inner, f"{name} {own}".strip())
    else:
        yield name, command


def test_whatever_lists_or_shows_has_it() -> None:
    shows = {
        name
        for name, command in [*leaves(main), ("savepoint check", check)]
        if name.split()[-1]
        in ("list", "show", "diff", "status", "check", "checkpoints", "info", "list-users", "replay")
    }
    have = {
        name
        for name, command in [*leaves(main), ("savepoint check", check)]
        if any("--json" in option.opts for option in command.params)
    }
    assert shows - {"ha check", "completion show"} == have


class FakeClient:
    """A cluster with one job, which has one checkpoint."""

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def list_jobs(self, include_terminal: bool, *, with_findings: bool) -> list[pb.JobStatus]:
        assert with_findings
        vertices = [pb.VertexStatus(task_counts={"RUNNING": 2}), pb.VertexStatus(task_counts={"CREATED": 1})]
        found = [
            pb.JobFinding(kind="skewed", vertex_id="v", subtask=0, sentence="Subtask 1 gets 90 %.", advice="Split it."),
            pb.JobFinding(kind="growing", vertex_id="w", sentence="The state of w grows.", advice="Clear it."),
        ]
        return [
            pb.JobStatus(
                job_id=JOB_ID, name="clïcks", state="RUNNING", start_ms=5, restarts=1, vertices=vertices, findings=found
            )
        ]

    def checkpoints(self, job_id: str, subtasks_of: int) -> pb.CheckpointList:
        subtasks = [pb.SubtaskCheckpoint(vertex_id="v", index=1, ack_ms=30)] if subtasks_of else []
        one = pb.CheckpointStatus(
            checkpoint_id=7, status="COMPLETED", snapshot_type="CHECKPOINT", trigger_ms=10, completed_ms=50, path="/c/7", subtasks=subtasks
        )  # fmt: skip
        return pb.CheckpointList(completed=1, failed=2, checkpoints=[one])


@pytest.fixture
def _cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.cli.commands.jobs.connect", lambda *_: FakeClient())


@pytest.mark.usefixtures("_cluster")
def test_jobs_are_a_line_each_with_the_names_of_rest() -> None:
    (job,) = documents(tidegate("list", "--json"))
    assert job.pop("duration") > 0
    assert job == {
        "jid": JOB_ID,
        "name": "clïcks",
        "state": "RUNNING",
        "start-time": 5,
        "end-time": -1,
        "tasks": {"total": 3, "created": 1, "running": 2},
        "waiting-for": None,
        "restarts": 1,
        "checkpoints": 0,
        "findings": [
            {"kind": "skewed", "vertex": "v", "subtask": 0, "sentence": "Subtask 1 gets 90 %.", "advice": "Split it."},
            {
                "kind": "growing",
                "vertex": "w",
                "subtask": None,
                "sentence": "The state of w grows.",
                "advice": "Clear it.",
            },
        ],
    }
    assert documents(tidegate("list", "-s", "--json")) == []


@pytest.mark.usefixtures("_cluster")
def test_what_is_wrong_with_a_job_is_below_the_table() -> None:
    *_, empty, job, first, advice, second, its_advice = tidegate("list").output.splitlines()
    assert (empty, job) == ("", f"clïcks ({JOB_ID}):")
    assert (first, advice) == ("  Subtask 1 gets 90 %.", "    Split it.")
    assert (second, its_advice) == ("  The state of w grows.", "    Clear it.")


@pytest.mark.usefixtures("_cluster")
def test_checkpoints_are_one_document_and_one_of_them_has_its_subtasks() -> None:
    (found,) = documents(tidegate("checkpoints", JOB_ID, "--json"))
    assert found["counts"] == {"restored": 0, "in_progress": 0, "completed": 1, "failed": 2}
    (one,) = found["history"]
    assert (one["id"], one["end_to_end_duration"], one["external_path"]) == (7, 40, "/c/7")
    assert one["failure_message"] is None
    assert "subtasks" not in one
    (one,) = documents(tidegate("checkpoints", JOB_ID, "--id", 7, "--json"))
    assert one["subtasks"] == [{"vertex": "v", "index": 1, "ack_timestamp": 30, "state_size": 0}]


def test_the_plan_has_the_names_of_rest(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(JOB)
    (plan,) = documents(tidegate("info", "-p", 3, "--json", path))
    assert (plan["name"], plan["slots"]) == ("tiny", 3)
    source, sink = plan["nodes"]
    assert source["inputs"] == []
    assert sink["inputs"] == [{"num": 0, "id": source["id"], "ship_strategy": "REBALANCE"}]
    assert sink["parallelism"] == 3


def test_users_are_a_line_each(tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    for name, role in (("ann", "view"), ("bob", "deploy")):
        assert tidegate("security", "add-user", name, "--role", role, "--file", users).exit_code == 0
    assert documents(tidegate("security", "list-users", "--json", "--file", users)) == [
        {"name": "ann", "role": "view"},
        {"name": "bob", "role": "deploy"},
    ]


def test_a_cluster_that_is_none_is_shown_as_none(tmp_path: Path) -> None:
    result = tidegate("cluster", "status", "--json", "--dir", tmp_path)
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "directory": str(tmp_path / "clusters" / "default"),
        "processes": [],
        "jobmanager": None,
        "by-hand": [],
        "warm-cluster": None,
    }


def test_a_lost_process_has_the_time_since_which_it_is(tmp_path: Path) -> None:
    pids = tmp_path / "clusters" / "default" / "pid"
    pids.mkdir(parents=True)
    (pids / "jobmanager.pid").write_text("1 0\n")
    (one,) = json.loads(tidegate("cluster", "status", "--json", "--dir", tmp_path).stdout)["processes"]
    assert (one["name"], one["pid"], one["state"]) == ("jobmanager", None, "lost")
    assert one["lost-since"] == pytest.approx((pids / "jobmanager.pid").stat().st_mtime * 1000, abs=1)
    shown = tidegate("cluster", "status", "--dir", tmp_path)
    assert "lost since " in shown.stdout
    assert " ago" in shown.stdout
