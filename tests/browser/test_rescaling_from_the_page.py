"""A job or a vertex is rescaled from the page, which says before what that would move."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from tests.browser.accessible import faint_texts, faults, violations
from tests.browser.chromium import OpenPage
from tests.browser.stage import Stage, job_of
from tests.browser.views import api, settled, url_of


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_a_job_is_rescaled_after_the_page_has_said_what_that_moves(
    stage: Stage, open_page: OpenPage, width: int, theme: str
) -> None:
    page = settled(open_page(url_of(stage, "graph"), width, theme))
    page.get_by_role("button", name="Rescale …").click()
    dialog = page.get_by_role("dialog", name="Rescale the job")
    submit = dialog.get_by_role("button", name="Rescale the job")
    expect(submit).to_be_disabled()
    expect(dialog.get_by_label("Vertex").locator("option:checked")).to_have_text("all that can change")
    dialog.get_by_label("Subtasks").fill("3")
    moves = dialog.get_by_role("listitem")
    expect(moves.filter(has_text="window by user, 1 min: 2 → 3 subtasks; no state")).to_be_visible()
    assert faults(page) == []
    assert faint_texts(page) == []
    assert violations(page) == []
    dialog.get_by_label("Subtasks").fill("2000")
    expect(dialog.locator(".note.warn")).to_be_visible()
    expect(submit).to_be_disabled()
    dialog.get_by_label("Subtasks").fill("3")
    expect(submit).to_be_enabled()
    submit.click()
    expect(dialog).to_have_count(0)
    expect(page.locator("#said")).to_contain_text("The job is being rescaled")
    bounds = api(stage, f"jobs/{job_of(stage.scene)}/resource-requirements")
    assert {both["parallelism"]["upperBound"] for both in bounds.values()} == {3}
    page.goto(stage.url + f"#/jobs/{job_of(stage.scene)}/vertices")
    expect(page.get_by_role("region", name="Changes of the parallelism", exact=True)).to_be_visible()


def test_one_vertex_is_rescaled_with_those_that_change_with_it(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(url_of(stage, "vertices")))
    page.locator("section").filter(has=page.locator("#subtasks-title")).get_by_role("button", name="Rescale …").click()
    dialog = page.get_by_role("dialog", name="Rescale the job")
    expect(dialog.get_by_label("Vertex").locator("option:checked")).to_have_text("enrich -> filter")
    dialog.get_by_label("Subtasks").fill("1")
    expect(dialog.get_by_role("listitem")).to_have_text(["enrich -> filter: 2 → 1 subtask; no state"])
    dialog.get_by_label("Vertex").select_option(label="window by user, 1 min")
    expect(dialog.get_by_role("listitem")).to_have_count(2)
    expect(dialog.get_by_role("listitem").nth(1)).to_have_text("Sink: files: 2 → 1 subtask; no state")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_slow_job_manager_is_asked_one_question_at_a_time_and_then_the_last_one(
    stage: Stage, open_page: OpenPage
) -> None:
    page = settled(open_page(url_of(stage, "graph")))
    held: list[Route] = []
    page.route(re.compile("web/rescale"), lambda route: held.append(route))
    page.get_by_role("button", name="Rescale …").click()
    dialog = page.get_by_role("dialog", name="Rescale the job")
    subtasks = dialog.get_by_label("Subtasks")
    with page.expect_request(re.compile("parallelism=3")):
        subtasks.fill("3")
    for number in ("4", "5", "1"):
        subtasks.fill(number)
    assert len(held) == 1
    with page.expect_request(re.compile("parallelism=1")):
        held[0].continue_()
    expect(dialog.get_by_role("listitem")).to_have_count(0)
    held[1].continue_()
    expect(dialog.get_by_role("listitem").filter(has_text="window by user, 1 min: 2 → 1 subtask")).to_be_visible()
    assert len(held) == 2
