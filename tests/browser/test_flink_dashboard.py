"""Flink's own dashboard, out of the installed distribution, on our port: every page works, and what it shows is right."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.chromium import OpenPage
from tests.browser.stage import Stage, job_of, pipeline_scene
from tests.contract.rest.scene import Inspected
from tests.servers.flink_environment import FlinkEnvironment

EDITOR = ".monaco-editor .view-line"

OF_A_VERTEX = {
    "detail": "SubTasks",
    "subtasks": "tm-1:1",
    "taskmanagers": "tm-1:1",
    "watermarks": "SubTasks",
    "accumulators": "SubTasks",
    "backpressure": "SubTasks",
    "metrics": "SubTasks",
    "flamegraph": "SubTasks",
}
OF_A_JOB = {
    "overview": "Sink: files",
    "timeline": "Vertex TimeLine",
    "exceptions": "Root Exception",
    "checkpoints": "Checkpoint Counts",
    "configuration": "Execution Configuration",
    "dataskew": "What is Data Skew",
}
OF_THE_CLUSTER = {
    "overview": "SingleJobApplication(job)",
    "job/running": "RUNNING",
    "job/completed": "Completed Jobs",
    "task-manager": "tm-1",
    "task-manager/tm-1/metrics": "Path",
    "task-manager/tm-1/log-list": "taskmanager.log",
    "job-manager/metrics": "Flink Memory Model",
    "job-manager/config": "rest.dashboard.dir",
    "job-manager/log": "jobmanager.log",
}
TEXTS = {
    "task-manager/tm-1/logs": "a line",
    "task-manager/tm-1/stdout": "printed",
    "task-manager/tm-1/thread-dump": "a stack",
    "job-manager/logs": "the log",
    "job-manager/stdout": "printed",
    "job-manager/thread-dump": "Id=",
}


class Printing(Inspected):
    async def read_stdout(self, address: str) -> bytes:
        return b"printed\n"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """This process logs as a JobManager with a log file does."""
    path = tmp_path / "jobmanager.log"
    path.with_suffix(".out").write_text("printed\n")
    handler = logging.FileHandler(path)
    logging.getLogger().addHandler(handler)
    logging.getLogger("jobmanager").warning("the log")
    yield path
    logging.getLogger().removeHandler(handler)
    handler.close()


@pytest.fixture
def stage(flink: FlinkEnvironment, log: Path) -> Iterator[Stage]:
    (jar,) = (flink.home / "lib").glob("flink-dist*.jar")
    scene = pipeline_scene(settings={"rest.dashboard.dir": str(jar)})
    scene.inspector = Printing()
    with Stage(scene) as stage:
        yield stage


LEFT_TOO_EARLY = ("reading 'layout'", "SVGLength")
"""The dashboard's own complaints when one leaves a page before its editor was there, or its graph had a size."""


class _Ours(list[str]):
    """Troubles without those; they may come when the test is over."""

    def append(self, trouble: str) -> None:
        if not any(text in trouble for text in LEFT_TOO_EARLY):
            super().append(trouble)


@pytest.fixture
def troubles() -> list[str]:
    return _Ours()


def test_every_page_of_the_dashboard(stage: Stage, open_page: OpenPage) -> None:
    job = stage.scene.machine.jobs()[0]
    base = f"{stage.url}flink/#/"
    of_job = f"job/running/{job.job_id}"
    vertex = f"{of_job}/overview/{job.vertices[2].vertex_id}"
    expected = {
        **OF_THE_CLUSTER,
        **{f"{of_job}/{tab}": text for tab, text in OF_A_JOB.items()},
        **{f"{vertex}/{tab}": text for tab, text in OF_A_VERTEX.items()},
    }
    page = open_page(base)
    for path, text in expected.items():
        page.goto(base + path)
        expect(page.locator("flink-root"), path).to_contain_text(text)
        assert page.locator(".ant-notification-notice").all_inner_texts() == [], path
        assert page.url == base + path  # it leads away from what it does not know
    for path, text in TEXTS.items():
        page.goto(base + path)
        expect(page.locator(EDITOR).filter(has_text=text).first).to_be_visible()


def test_it_counts_what_there_is_and_cancels(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(f"{stage.url}flink/#/overview")
    expect(page.locator("flink-overview-statistic")).to_contain_text("8")  # slots that are free
    page.goto(f"{stage.url}flink/#/job/running/{job_of(stage.scene)}/checkpoints")
    expect(page.locator("flink-job-checkpoints")).to_contain_text("Completed: 8")
    page.get_by_text("Cancel Job").click()
    page.get_by_role("button", name="Yes").or_(page.get_by_role("button", name="OK")).first.click()
    expect(page.locator("flink-job-status")).to_contain_text("CANCEL")
    assert stage.scene.cluster.job_state().value == "CANCELLING"
