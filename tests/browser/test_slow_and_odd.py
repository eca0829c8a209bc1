"""The page in front of a JobManager that is slow, and at mistyped addresses: nothing piles up, and each view says what it lacks."""

from __future__ import annotations

import re
from functools import partial

import pytest
from playwright.sync_api import Route, expect

from tests.browser.chromium import OpenPage
from tests.browser.stage import Stage, job_of, take
from tests.browser.views import settled, url_of
from tests.unit.jobmanager.machines.cluster_kit import until_triggered

_ASKED = """async ([module, view, times]) => {
  const page = await import(`/web/${module}.js`);
  const job = { id: "a".repeat(32), state: "RUNNING", vertices: [{ id: "v", name: "v", parallelism: 2 }] };
  let render;
  const shown = new Promise((done) => (render = done));
  const context = { data: { job }, where: { item: "v" }, kept: {}, render, nowMs: 0 };
  const own = window.fetch;
  let answer;
  const asked = [];
  window.fetch = (path) => new Promise((done) => {
    asked.push(path);
    answer = () => done(new Response(JSON.stringify({ series: {}, endTimestamp: -3 }), { headers: { "content-type": "application/json" } }));
  });
  try {
    const look = () => page[view]({ ...context, nowMs: (context.nowMs += 60000) });
    for (let n = 0; n < times; n += 1) look();
    const before = asked.length;
    answer();
    await shown;
    for (let n = 0; n < times; n += 1) look();
    return [before, asked.length];
  } finally {
    window.fetch = own;
  }
}"""


@pytest.mark.parametrize(("module", "view"), [("plots", "plotsTab"), ("flames", "flamesTab")])
def test_a_view_that_asks_again_and_again_waits_for_its_answer(
    stage: Stage, open_page: OpenPage, module: str, view: str
) -> None:
    page = settled(open_page(stage.url))
    assert page.evaluate(_ASKED, [module, view, 5]) == [1, 2]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("#/%", "Jobs"),
        ("#/jobs/orders", "The JobManager does not know orders."),
        ("#/jobs/100%25%/vertices", "The JobManager does not know 100%25%."),
        ("#/jobs/{job}/checkpoints/newest", "The history has no checkpoint newest"),
        ("#/jobs/{upper}/checkpoints", "History"),
    ],
)
def test_addresses_that_name_nothing_say_so(stage: Stage, open_page: OpenPage, address: str, said: str) -> None:
    job = str(job_of(stage.scene))
    page = settled(open_page(stage.url + address.format(job=job, upper=job.upper())))
    expect(page.locator("main")).to_contain_text(said)


def test_keys_of_one_letter_do_nothing_below_a_dialog(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(url_of(stage, "graph")))
    page.get_by_role("button", name="Rescale …").click()
    dialog = page.get_by_role("dialog", name="Rescale the job")
    expect(dialog).to_be_visible()
    page.evaluate("document.activeElement.blur()")
    for key in ("l", "2", "?"):
        page.keyboard.press(key)
    expect(page.get_by_role("dialog")).to_have_count(1)
    assert page.url == url_of(stage, "graph")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.keyboard.press("2")
    expect(page.get_by_role("region", name="Table of vertices")).to_be_visible()


def test_checkpoints_that_are_gone_before_they_are_read_are_not_asked_for_for_ever(
    stage: Stage, open_page: OpenPage, troubles: list[str]
) -> None:
    asked: list[str] = []

    def complete() -> None:
        number = 9 + len(asked)
        stage.do(partial(until_triggered, stage.scene.cluster, number))
        stage.do(partial(take, stage.scene.cluster, number))

    def refuse(route: Route) -> None:
        complete()
        asked.append(route.request.url)
        route.fulfill(status=409, json={"errors": ["It is gone."]})

    page = settled(open_page(url_of(stage, "graph")))
    page.route(re.compile("web/state"), refuse)
    page.get_by_role("link", name="State", exact=True).click()
    again = page.get_by_role("button", name="Read the newest checkpoint")
    expect(again).to_be_visible()
    expect(page.locator(".note.warn")).to_have_text("It is gone.")
    assert len(asked) == 3
    complete()
    expect(page.get_by_role("link", name=re.compile("^Checkpoints ?12$"))).to_be_visible()
    assert len(asked) == 3
    asked.append("none")
    again.click()
    expect(page.get_by_role("combobox", name="Which checkpoint")).to_have_value("14")
    expect(again).to_be_visible()
    assert len(asked) == 7
    troubles.clear()


def test_a_list_begins_with_its_first_choice_and_keeps_what_was_chosen(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(f"{stage.url}#/submit"))
    claim = page.get_by_label("Claim mode")
    expect(claim).to_have_value("NO_CLAIM")
    claim.select_option("CLAIM")
    page.get_by_role("button", name="Theme: auto. Change it").click()
    expect(page.get_by_role("button", name="Theme: light. Change it")).to_be_visible()
    expect(claim).to_have_value("CLAIM")


def test_the_shares_of_operators_do_not_overlap_on_a_narrow_screen(stage: Stage, open_page: OpenPage) -> None:
    stage.scene.attempts.busy = {"enrich": 0.5, "filter": 0.25}
    page = settled(open_page(url_of(stage, "vertices"), 390))
    rows = page.get_by_role("region", name="Operators of the chain").get_by_role("listitem")
    expect(rows).to_have_count(2)
    for row in rows.all():
        share, mean = row.locator(".meter").bounding_box(), row.get_by_text("mean").bounding_box()
        assert share is not None
        assert mean is not None
        assert share["x"] + share["width"] <= mean["x"]
