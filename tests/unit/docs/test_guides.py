"""Every example of the README and the guides runs: its graph is built as for a cluster, then all its subtasks run in this process.

A fence ```` ```python run ```` is such an example; ```` ```text printed ```` behind it is what it prints, in any order;
```` ```python build ```` is only built, since it needs a Spark, or is
large.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.architecture.source import ROOT
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.connectors.spark.query import QueryDescription
from tidegate.datastream import data_stream
from tidegate.datastream._graph.executor import PlanRecorded, PlanRecorder, installed
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.model.accumulators import merged
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey

PAGES = (ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.name != "0000-template.md"))
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
PARALLELISM = "2"
FLIGHTS = pa.table(
    {
        "scheduled_departure": pa.array([1357034400000 + 60_000 * i for i in range(300)], pa.timestamp("ms", tz="UTC")),
        "carrier": ["UA", "AA", "B6"] * 100,
        "origin": ["EWR", "LGA"] * 150,
        "dep_delay": [None if i % 11 == 0 else float(i % 90) for i in range(300)],
    }
)


@dataclass(frozen=True)
class Example:
    page: str
    line: int
    code: str
    is_run: bool
    printed: list[str] | None


def examples() -> Iterator[Example]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fences = list(FENCE.finditer(text))
        for fence, behind in zip(fences, [*fences[1:], None], strict=False):
            if fence["info"] not in ("python run", "python build"):
                continue
            told = behind["body"].splitlines() if behind is not None and behind["info"] == "text printed" else None
            line = text.count("\n", 0, fence.start()) + 1
            name = page.relative_to(ROOT).as_posix()
            yield Example(name, line, fence["body"], fence["info"] == "python run", told)


class InThisProcess:
    """An executor: every subtask in a thread, real channels, real state files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.jobs = 0

    def execute(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobExecutionResult:
        self.jobs += 1
        job = InProcessJob(BuiltJob(graph, blobs, {}), self._directory)
        job.start()
        job.finish()
        told = merged(task.port.last_metrics.accumulators for task in job.tasks.values())
        return JobExecutionResult(graph.job_id, 0, told)

    def execute_async(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> None:
        raise AssertionError("examples wait for their job")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files that the examples read; a query of Spark has the columns of the flights."""
    logs = tmp_path / "data" / "logs"
    logs.mkdir(parents=True)
    (logs / "a.log").write_text("to be or not to be\n", encoding="utf-8")
    (logs / "b.log").write_text("to see or not to see\n", encoding="utf-8")
    pq.write_table(FLIGHTS, tmp_path / "data" / "flights.parquet", row_group_size=100)
    monkeypatch.chdir(tmp_path)
    schema = FLIGHTS.select(["carrier", "origin", "dep_delay"]).schema
    monkeypatch.setattr(data_stream, "describe", lambda *_: QueryDescription(schema, ""))
    monkeypatch.setattr(data_stream, "describe_stream", lambda *_: schema)
    return tmp_path


@pytest.mark.parametrize("example", [*examples()], ids=lambda example: f"{example.page}:{example.line}")
def test_an_example_does_what_its_page_says(example: Example, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = place / "example.py"
    file.write_text(example.code, encoding="utf-8")
    configuration = {"parallelism.default": PARALLELISM}
    if not example.is_run:
        recorder = PlanRecorder()
        with installed(recorder, configuration), pytest.raises(PlanRecorded):
            runpy.run_path(str(file), run_name="__main__")
        assert recorder.graph is not None
        return
    here = InThisProcess(place)
    with installed(here, configuration):  # type: ignore[arg-type]
        runpy.run_path(str(file), run_name="__main__")
    assert here.jobs == ("OperatorHarness(" not in example.code), "a harness is no job"
    if example.printed is not None:
        assert sorted(capsys.readouterr().out.splitlines()) == sorted(example.printed)


def test_every_guide_has_an_example() -> None:
    shown = {example.page for example in examples()}
    guides = {f"docs/guide/{page.name}" for page in (ROOT / "docs" / "guide").glob("[a-z]*.md")}
    of_commands = {
        "autoscaling",
        "application_mode",
        "command_line",
        "faults",
        "high_availability",
        "operations",
        "production",
        "rescaling",
        "rest_and_flink_cli",
        "signing",
        "taskmanagers_on_demand",
        "upgrading",
        "users",
    }
    in_e2e = {
        "kafka_and_postgres",
        "moving_from_spark",
        "notebooks",
        "queryable_state",
        "replay",
        "spark_cluster",
        "state_processor",
        "tls",
    }
    assert guides | {"README.md"} <= shown | {f"docs/guide/{page}.md" for page in of_commands | in_e2e}


def test_links_lead_to_files() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []
