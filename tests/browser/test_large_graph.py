"""A graph of 40 vertices can be read: straight runs are one box each, it fits into the window, and vertices are found by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.accessible import faint_texts, faults, violations
from tests.browser.chromium import OpenPage
from tests.browser.stage import Stage, job_of, take, wide_pipeline
from tests.browser.views import settled, url_of
from tests.contract.rest.scene import Scene
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, running_job, until_triggered

RUNS, SINGLE, ALL = 7, 5, 40

_TOUCHING = """(boxes) => {
  const places = boxes.map((node) => node.getBoundingClientRect());
  return places.some((a, at) => places.slice(at + 1).some((b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
}"""
_CUT = """(boxes) => boxes.filter((node) => node.querySelector(".loads").getBoundingClientRect().bottom > node.getBoundingClientRect().bottom).length"""
_CUT_INSIDE = """(boxes) => boxes.filter((node) => {
  const end = node.getBoundingClientRect().bottom;
  return [...node.querySelectorAll(".name, .stages")].some((part) => part.getBoundingClientRect().bottom > end);
}).length"""
_LETTERS_PX = """(names) => Math.min(...names.map((node) => {
  const range = document.createRange();
  range.selectNodeContents(node);
  return range.getClientRects()[0].height;
}))"""


@pytest.fixture
def large() -> Iterator[Stage]:
    with Stage(Scene(running_job(wide_pipeline(), slots=8))) as stage:
        yield stage


@pytest.fixture
def taken() -> Iterator[Stage]:
    """The same graph, of whose job a checkpoint was taken."""
    cluster = running_job(wide_pipeline(), CHECKPOINTED, slots=8)
    until_triggered(cluster, 1)
    take(cluster, 1)
    with Stage(Scene(cluster)) as stage:
        yield stage


def graph_of(stage: Stage, open_page: OpenPage, width: int = 1280, theme: str = "light") -> Page:
    page: Page = open_page(f"{stage.url}#/jobs/{job_of(stage.scene)}", width, theme)
    return settled(page)


def width_of(box: Locator) -> float:
    found = box.bounding_box()
    assert found is not None
    return found["width"]


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_it_is_folded_at_first_and_readable_as_a_whole(
    large: Stage, open_page: OpenPage, width: int, theme: str
) -> None:
    page = graph_of(large, open_page, width, theme)
    boxes = page.locator(".vertex")
    for count, change in ((RUNS + SINGLE, "Expand all"), (ALL, "Collapse runs")):
        expect(boxes).to_have_count(count)
        assert not boxes.evaluate_all(_TOUCHING)
        assert boxes.evaluate_all(_CUT) == 0
        assert page.locator(".vertex .name").evaluate_all(_LETTERS_PX) >= 12
        assert faults(page) == []
        assert faint_texts(page) == []
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("button", name=change).click()
    expect(boxes).to_have_count(RUNS + SINGLE)


def test_a_run_opens_by_keyboard_and_its_first_vertex_has_the_focus(large: Stage, open_page: OpenPage) -> None:
    page = graph_of(large, open_page)
    run = page.get_by_role("button", name="fraud: filter … Sink: fraud")
    expect(run).to_contain_text("5 vertices")
    run.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".vertex")).to_have_count(RUNS + SINGLE + 4)
    expect(page.get_by_role("link", name="fraud: filter")).to_be_focused()
    edges = page.get_by_role("list", name="Edges")
    expect(edges).to_contain_text("fraud: rank feeds fraud: format by rebalance")
    expect(edges).to_contain_text(
        "interval join of everything by order id feeds revenue: filter … Sink: revenue by hash"
    )
    page.get_by_role("button", name="Expand all").click()
    page.get_by_role("button", name="Collapse runs").click()
    expect(run).to_be_visible()


def test_vertices_are_found_by_name_in_runs_too_and_brought_into_sight(large: Stage, open_page: OpenPage) -> None:
    page = graph_of(large, open_page)
    for _ in range(2):
        page.get_by_role("button", name="Zoom in").click()
    search = page.get_by_role("searchbox", name="Find a vertex")
    search.fill("Rank")
    expect(page.get_by_role("status").filter(has_text="1 of 3")).to_be_visible()
    expect(page.locator(".vertex.found")).to_have_count(3)
    expect(page.locator(".vertex.looked")).to_contain_text("revenue: rank")
    expect(page.locator(".vertex.looked")).to_be_in_viewport()
    search.press("Enter")
    expect(page.locator(".vertex.looked")).to_contain_text("fraud: rank")
    search.press("Shift+Enter")
    search.press("Shift+Enter")
    expect(page.locator(".vertex.looked")).to_contain_text("latency: rank")
    expect(page.locator(".vertex.looked")).to_be_in_viewport()
    search.fill("no such vertex")
    expect(page.get_by_role("status").filter(has_text="none")).to_be_visible()
    expect(page.locator(".vertex")).to_have_count(RUNS + SINGLE)


def test_it_is_zoomed_by_buttons_and_keys(large: Stage, open_page: OpenPage) -> None:
    page = graph_of(large, open_page)
    page.get_by_role("button", name="Expand all").click()
    box = page.locator(".vertex").first
    expect(page.locator(".graph")).to_have_class("graph far farthest")
    fitting = width_of(box)
    for _ in range(4):
        page.get_by_role("button", name="Zoom in").click()
    expect(page.locator(".graph")).to_have_class("graph")
    near = wait_until(lambda: found if (found := width_of(box)) > 2 * fitting else None, HANG_LIMIT_S, "it is near")
    assert near is not None
    graph = page.get_by_role("region", name="Graph of job")
    graph.focus()
    page.keyboard.press("-")
    page.keyboard.press("-")
    expect(page.locator(".graph")).to_have_class("graph far")
    assert fitting < width_of(box) < near
    page.keyboard.press("0")
    expect(page.locator(".graph")).to_have_class("graph far farthest")
    assert width_of(box) == pytest.approx(fitting)


def zooms(page: Page) -> None:
    """The graph of the page fits at first, and is zoomed by buttons and keys."""
    expect(page.locator(".vertex")).to_have_count(ALL)
    box = page.locator(".vertex").first
    fitting = width_of(box)
    assert not page.locator(".vertex").evaluate_all(_TOUCHING)
    assert page.locator(".vertex").evaluate_all(_CUT_INSIDE) == 0
    assert faults(page) == []
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(page.locator(".graph")).to_have_class(re.compile(r"\bfar\b"))
    for _ in range(4):
        page.get_by_role("button", name="Zoom in").click()
    expect(page.locator(".graph")).to_have_class("graph")
    wait_until(lambda: width_of(box) > 2 * fitting, HANG_LIMIT_S, "the last step is drawn")
    page.locator(".graph").focus()
    page.keyboard.press("0")
    expect(page.locator(".graph")).to_have_class(re.compile(r"\bfar\b"))
    assert width_of(box) == pytest.approx(fitting)


@pytest.mark.parametrize("width", [1280, 390])
def test_a_checkpoint_is_seen_over_a_graph_that_is_zoomed(taken: Stage, open_page: OpenPage, width: int) -> None:
    page = settled(open_page(f"{taken.url}#/jobs/{job_of(taken.scene)}/checkpoints/1", width))
    zooms(page)
    page.goto(f"{taken.url}#/jobs/{job_of(taken.scene)}")
    expect(page.get_by_role("button", name="Fit")).to_have_attribute("aria-pressed", "true")


def test_a_large_plan_is_zoomed(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(f"{stage.url}#/submit"))
    nodes = [
        {
            "id": f"{n}",
            "description": f"step {n}",
            "parallelism": 2,
            "inputs": [{"id": f"{n - 1}", "ship_strategy": "HASH"}],
        }
        for n in range(1, ALL)
    ]
    plan = {"name": "orders", "nodes": [*reversed(nodes), {"id": "0", "description": "Source", "parallelism": 2}]}
    page.route(re.compile("jars/upload"), lambda route: route.fulfill(json={"filename": "/jars/own.py"}))
    page.route(
        re.compile("jars/own.py/plan"),
        lambda route: route.fulfill(content_type="application/json", body=json.dumps({"plan": plan})),
    )
    page.get_by_label("Job file").set_input_files({"name": "own.py", "mimeType": "text/x-python", "buffer": b"print()"})
    page.get_by_role("button", name="Show the plan").click()
    zooms(page)


def test_keys_that_come_before_the_page_is_drawn_count_each(large: Stage, open_page: OpenPage) -> None:
    page = graph_of(large, open_page)
    zooms = """async (keys) => {
      const { newView, zoomed } = await import("/web/graphtools.js");
      const view = newView();
      const { onkeydown } = zoomed({ vertices: Array(40) }, view, () => {});
      for (const key of keys) onkeydown({ key });
      return view.zoom;
    }"""
    assert page.evaluate(zooms, ["-", "-"]) == pytest.approx(0.64)
    assert page.evaluate(zooms, ["-", "-", "+", "0"]) == "fit"


def test_a_small_graph_has_no_tools(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(url_of(stage, "graph")))
    expect(page.locator(".vertex")).to_have_count(6)
    expect(page.locator(".graph-tools")).to_have_count(0)


def test_runs_are_straight_not_short_and_not_too_long(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(url_of(stage, "graph")))
    runs = """async ([count, pairs]) => {
      const { runs } = await import("/web/fold.js");
      return runs([...Array(count).keys()], pairs.map(([source, target]) => ({ source, target })));
    }"""

    def found(count: int, *pairs: tuple[int, int]) -> list[list[int]]:
        return list(page.evaluate(runs, [count, pairs]))

    line = [(at, at + 1) for at in range(39)]
    assert [len(run) for run in found(40, *line)] == [8] * 5
    assert found(2, (0, 1)) == []
    assert found(3, (0, 1), (1, 2)) == [[0, 1, 2]]
    diamond = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 5)]
    assert found(6, *diamond) == [[3, 4, 5]]
    assert found(4, (0, 1), (1, 2), (0, 2), (2, 3)) == []
    assert found(2, (0, 1), (0, 1)) == []
