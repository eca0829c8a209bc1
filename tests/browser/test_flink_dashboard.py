"""Flink's own dashboard, out of the installed distribution, on our port: every page works, and what it shows is right."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.aio.jobmanager.callers import one_of_each
from tests.browser.chromium import OpenPage
from tests.browser.stage import Stage, job_of, pipeline_scene
from tests.browser.views import dialog_of, forget_refusals, settled, signed_in
from tests.contract.rest.scene import Inspected
from tests.servers.flink_environment import FlinkEnvironment
from tidegate.security.users import Role

EDITOR = ".monaco-editor .view-line"
NOTICE = ".ant-notification-notice"

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


def stage_with(flink: FlinkEnvironment, **settings: str) -> Stage:
    (jar,) = (flink.home / "lib").glob("flink-dist*.jar")
    scene = pipeline_scene(settings={"rest.dashboard.dir": str(jar), **settings})
    scene.inspector = Printing()
    return Stage(scene)


@pytest.fixture
def stage(flink: FlinkEnvironment, log: Path) -> Iterator[Stage]:
    with stage_with(flink) as stage:
        yield stage


@pytest.fixture
def tokens(tmp_path: Path) -> dict[Role, str]:
    return one_of_each(tmp_path / "users")


@pytest.fixture
def stage_of_users(flink: FlinkEnvironment, log: Path, tmp_path: Path, tokens: dict[Role, str]) -> Iterator[Stage]:
    with stage_with(flink, **{"tidegate.security.users.file": str(tmp_path / "users")}) as stage:
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


def look_at_every_page(stage: Stage, page: Page) -> None:
    """And at what each shows."""
    job = stage.scene.machine.jobs()[0]
    base = f"{stage.url}flink/#/"
    of_job = f"job/running/{job.job_id}"
    vertex = f"{of_job}/overview/{job.vertices[2].vertex_id}"
    expected = {
        **OF_THE_CLUSTER,
        **{f"{of_job}/{tab}": text for tab, text in OF_A_JOB.items()},
        **{f"{vertex}/{tab}": text for tab, text in OF_A_VERTEX.items()},
    }
    for path, text in expected.items():
        page.goto(base + path)
        expect(page.locator("flink-root"), path).to_contain_text(text)
        assert page.locator(NOTICE).all_inner_texts() == [], path
        assert page.url == base + path  # it leads away from what it does not know
    for path, text in TEXTS.items():
        page.goto(base + path)
        expect(page.locator(EDITOR).filter(has_text=text).first).to_be_visible()


def cancel(stage: Stage, page: Page) -> None:
    page.goto(f"{stage.url}flink/#/job/running/{job_of(stage.scene)}/checkpoints")
    expect(page.locator("flink-job-checkpoints")).to_contain_text("Completed: 8")
    page.get_by_text("Cancel Job").click()
    page.get_by_role("button", name="Yes").or_(page.get_by_role("button", name="OK")).first.click()


def test_every_page_of_the_dashboard(stage: Stage, open_page: OpenPage) -> None:
    look_at_every_page(stage, open_page(f"{stage.url}flink/#/"))


def test_it_counts_what_there_is_and_cancels(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(f"{stage.url}flink/#/overview")
    expect(page.locator("flink-overview-statistic")).to_contain_text("8")  # slots that are free
    cancel(stage, page)
    expect(page.locator("flink-job-status")).to_contain_text("CANCEL")
    assert stage.scene.cluster.job_state().value == "CANCELLING"


def test_every_page_of_it_is_there_for_a_user_who_signed_in_on_our_page(
    stage_of_users: Stage, open_page: OpenPage, troubles: list[str], tokens: dict[Role, str]
) -> None:
    page = signed_in(open_page(stage_of_users.url), tokens[Role.DATA])
    forget_refusals(troubles)  # before the token was said
    look_at_every_page(stage_of_users, page)
    page.goto(stage_of_users.url)
    settled(page).get_by_role("button", name="Sign out the-data").click()
    expect(dialog_of(page)).to_be_visible()
    answer = page.context.new_page().goto(f"{stage_of_users.url}flink/overview")
    assert answer is not None
    assert answer.status == 401
    forget_refusals(troubles)


def test_it_cancels_for_a_user_who_may_and_says_that_another_one_may_not(
    stage_of_users: Stage, open_page: OpenPage, troubles: list[str], tokens: dict[Role, str]
) -> None:
    viewing = signed_in(open_page(stage_of_users.url), tokens[Role.VIEW])
    forget_refusals(troubles)
    cancel(stage_of_users, viewing)
    expect(viewing.locator(NOTICE)).to_contain_text("the-view has the role view")
    assert stage_of_users.scene.cluster.job_state().value == "RUNNING"
    viewing.close()
    assert any(trouble.startswith("403") for trouble in troubles)
    troubles.clear()  # the dashboard logs the refusal as an error of its own
    operating = signed_in(open_page(stage_of_users.url), tokens[Role.OPERATE])
    forget_refusals(troubles)
    cancel(stage_of_users, operating)
    expect(operating.locator("flink-job-status")).to_contain_text("CANCEL")
    assert stage_of_users.scene.cluster.job_state().value == "CANCELLING"
