"""The page says in sentences what holds a job up, which subtask has too many rows, and whose state grows."""

from __future__ import annotations

import re
from functools import partial

import pytest
from playwright.sync_api import expect

from tests.browser.accessible import faint_texts, faults, violations
from tests.browser.chromium import OpenPage
from tests.browser.stage import Stage, job_of, pipeline_scene
from tests.browser.views import settled, url_of
from tests.contract.rest.scene import Counted, Scene
from tests.unit.jobmanager.machines.cluster_kit import operator_id, until_triggered
from tidegate.jobmanager.machines.events import JobCancelRequested
from tidegate.jobmanager.web.findings import LEAST_GROWTH_MS
from tidegate.jobmanager.web.series import STEP_MS
from tidegate.model.checkpoint import (
    OperatorSnapshot,
    OperatorStateHandle,
    StateHandle,
    StateRedistribution,
    SubtaskSnapshot,
)
from tidegate.model.ids import AttemptId
from tidegate.model.states import ExecutionState
from tidegate.wire.task_metrics import ReadingSpan

HALF_A_MINUTE = 30_000 // STEP_MS
CLICKS, ENRICH = "Source: clicks -> parse", "enrich -> filter"
SLOW = f"{ENRICH} holds the job up: it is busy 95 % of the time, and what feeds it waits for it: {CLICKS} 80 % of the time."
SKEWED = f"Subtask 3 of {ENRICH} gets 50 % of the rows; with 4 subtasks an even share is 25 %."


class Uneven(Counted):
    """Clicks wait for an operator that is busy, and whose third subtask has half of the rows."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._names = {vertex.vertex_id: vertex.name for vertex in scene.machine.jobs()[0].vertices}

    def span_of(self, attempt: AttemptId) -> ReadingSpan | None:
        span, name = super().span_of(attempt), self._names[attempt.vertex_id]
        if span is not None:
            later = span.later
            later.busy_ms = 9_500 if name == ENRICH else 1_000
            later.backpressured_ms = 8_000 if name == CLICKS else 0
            later.records_in = 9_000 if name == ENRICH and attempt.subtask == 2 else 3_000
        return span


@pytest.fixture
def uneven() -> Scene:
    scene = pipeline_scene(parallelism=4, slots=8, task_managers=1)
    scene.attempts = Uneven(scene)
    return scene


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_slow_operators_and_skewed_subtasks_are_named_with_the_evidence(
    uneven: Scene, open_page: OpenPage, width: int, theme: str
) -> None:
    with Stage(uneven) as stage:
        page = settled(open_page(url_of(stage, "graph"), width, theme))
        expect(page.locator(".facts")).to_be_visible()
        expect(page.locator(".findings")).to_have_count(0)
        for _ in range(HALF_A_MINUTE):
            stage.look()
        stage.do(lambda: None)
        found = page.get_by_role("region", name="Findings").get_by_role("listitem")
        expect(found).to_have_count(2)
        expect(found.nth(0).locator("p").first).to_have_text(SLOW)
        expect(found.nth(1).locator("p").first).to_have_text(SKEWED)
        assert faults(page) == []
        assert faint_texts(page) == []
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        found.nth(1).get_by_role("link", name="Plots").click()
        expect(page.get_by_role("combobox", name="Subtask")).to_have_value("2")
        page.goto(url_of(stage, "vertices"))
        expect(page.locator(".findings li")).to_have_count(2)
        page.get_by_role("link", name=CLICKS).click()
        expect(page.locator("#subtasks-title")).to_contain_text(CLICKS)
        expect(page.locator(".findings")).to_have_count(0)


def test_a_job_that_is_over_has_no_findings(uneven: Scene, open_page: OpenPage) -> None:
    with Stage(uneven) as stage:
        for _ in range(HALF_A_MINUTE):
            stage.look()
        page = settled(open_page(url_of(stage, "graph")))
        expect(page.locator(".findings li")).to_have_count(2)
        stage.do(lambda: uneven.post(JobCancelRequested(job_of(uneven))))
        stage.do(uneven.cluster.cancel_tasks)
        expect(page.locator(".badge").first).to_have_text("canceled")
        expect(page.locator(".findings")).to_have_count(0)


def test_state_that_grows_with_each_checkpoint_is_named_with_its_sizes(open_page: OpenPage) -> None:
    scene = pipeline_scene(checkpoints=0)
    with Stage(scene) as stage:
        for number in range(1, LEAST_GROWTH_MS // STEP_MS // 2 + 2):
            stage.do(partial(until_triggered, scene.cluster, number))
            stage.do(partial(acknowledge, scene, number, size_bytes=number << 20))
            stage.look()
            stage.look()
        page = settled(open_page(url_of(stage, "graph")))
        (found,) = page.locator(".findings li").all()
        sentence = rf"^The state of {re.escape(ENRICH)} grows: from 2\.0 MiB to 62\.0 MiB in 5m 05s\.$"
        expect(found.locator("p").first).to_have_text(re.compile(sentence))
        expect(found.get_by_role("link", name="State")).to_have_attribute("href", re.compile("/state$"))


def acknowledge(scene: Scene, checkpoint_id: int, size_bytes: int) -> None:
    """All subtasks acknowledge; those of one vertex have state of this size each."""
    handle = OperatorStateHandle(
        "seen",
        StateRedistribution.SPLIT,
        1,
        StateHandle(size_bytes, "0" * 16, "seen"),
    )
    held = SubtaskSnapshot({operator_id(ENRICH): OperatorSnapshot(operator=(handle,))})
    enrich = next(vertex.vertex_id for vertex in scene.machine.jobs()[0].vertices if vertex.name == ENRICH)
    for attempt in scene.cluster.attempts(ExecutionState.RUNNING):
        scene.cluster.acknowledge(attempt, checkpoint_id, held if attempt.vertex_id == enrich else None)
