"""What the page shows of the inside of a job: plots, flames, the busy operator, memory, accumulators, state."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.accessible import faults, violations
from tests.browser.chromium import OpenPage
from tests.browser.stage import Stage, pipeline_scene
from tests.browser.views import settled, url_of
from tests.unit.tidegate.state_reader.real_checkpoint import place_as, two_checkpoints
from tidegate.pb.common_pb2 import Accumulator


def test_plots_show_what_was_recorded_of_a_job_a_vertex_a_subtask_and_functions(
    stage: Stage, open_page: OpenPage
) -> None:
    stage.scene.attempts.user = {"enrich.hits": 4.0}
    for _ in range(3):
        stage.look()
    page = settled(open_page(url_of(stage, "plots")))
    plots = page.locator("figure.plot")
    expect(plots.first).to_contain_text("Records per second")
    expect(plots).to_have_count(6)
    page.get_by_role("combobox", name="What is plotted").select_option(label="enrich -> filter")
    expect(page.get_by_role("img", name="enrich.hits. value: last 8")).to_be_visible()
    page.get_by_role("combobox", name="Subtask").select_option(label="Subtask 2")
    expect(page.get_by_role("img", name="enrich.hits. value: last 4")).to_be_visible()
    expect(page.get_by_role("combobox", name="Subtask")).to_have_value("1")
    page.get_by_role("searchbox").fill("nothing like it")
    expect(page.get_by_text("No metric has such a name.")).to_be_visible()


def test_flames_are_sampled_when_asked_for_and_a_frame_can_be_the_whole_width(
    stage: Stage, open_page: OpenPage
) -> None:
    page = settled(open_page(url_of(stage, "flames")))
    expect(page.get_by_role("button", name="job.Slow.map, line 12: 70 % of the samples")).to_be_visible()
    expect(page.get_by_role("button", name="All samples: 100 % of the samples")).to_be_visible()
    page.get_by_role("button", name="job.Slow.map, line 12").click()
    expect(page.get_by_role("button", name="All samples")).to_have_count(0)
    page.get_by_role("combobox", name="Which time").select_option(label="While it waits")
    expect(page.get_by_role("button", name="tidegate.taskmanager.runtime.mailbox.Mailbox.wait")).to_be_visible()
    expect(page.get_by_role("button", name="job.Slow.map, line 12: 25 % of the samples")).to_be_visible()


def test_the_busy_operator_of_a_chain_and_the_memory_of_its_subtasks(stage: Stage, open_page: OpenPage) -> None:
    stage.scene.attempts.busy = {"enrich": 0.04, "filter": 0.715}
    stage.scene.attempts.memory_bytes = 64.0 * (1 << 20)
    page = settled(open_page(url_of(stage, "vertices"), 390))
    expect(page.get_by_role("row").filter(has_text="enrich -> filter").first).to_contain_text("busiest: filter, 72 %")
    operators = page.locator(".operators li")
    expect(operators).to_have_count(2)
    expect(operators.first).to_contain_text("enrich")
    expect(operators.nth(1).locator("b")).to_have_text("72 %")
    cells = page.locator(".window tbody tr")
    expect(cells.first).to_contain_text("64.0 MiB")
    expect(cells.nth(1)).to_contain_text("128 MiB")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []
    stage.look()
    plots = settled(open_page(url_of(stage, "plots of a vertex")))
    expect(plots.get_by_role("img", name="Memory of the processes. resident: last 192 MiB")).to_be_visible()


def test_the_state_of_a_checkpoint_is_browsed_by_operator_row_and_key(
    tmp_path: Path, open_page: OpenPage, troubles: list[str]
) -> None:
    with Stage(pipeline_scene(directory=str(tmp_path / "cp"))) as stage:
        last = stage.scene.machine.jobs()[0].checkpoints.history[0]
        place_as(two_checkpoints(tmp_path / "job", "page")[0], last.location, last.checkpoint_id)
        page = settled(open_page(url_of(stage, "state"), 390))
        states = page.get_by_role("region", name="Table of states")
        expect(states.get_by_role("row").filter(has_text="remember")).to_have_count(5)
        expect(states.get_by_role("row").filter(has_text="by-parity")).to_contain_text("map")
        page.get_by_role("button", name="Look into count of remember").click()
        rows = page.get_by_role("region", name="Rows of the state")
        expect(rows.locator("tbody tr")).to_have_count(10)
        expect(page.locator(".pages")).to_contain_text("Rows 1 to 10 of 10")
        page.get_by_role("searchbox", name="Key").fill("3")
        page.get_by_role("button", name="Find").click()
        expect(rows.locator("tbody tr")).to_have_count(1)
        expect(rows.locator("tbody td").nth(1)).to_have_text("3")
        page.get_by_role("button", name="Look into session of remember").click()
        expect(rows.locator("tbody tr").first).to_contain_text("real_checkpoint.Session, ")
        page.get_by_role("button", name="Look into _timers.event of remember").click()
        expect(rows.locator("tbody tr").first).to_contain_text("1970-01-01T02:46:40.00")
        page.get_by_role("searchbox", name="Key").fill("three")
        page.get_by_role("button", name="Find").click()
        expect(page.locator(".note.warn")).to_contain_text("no key can be 'three'")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert violations(page) == []
        assert faults(page) == []
        page.get_by_role("combobox", name="Which checkpoint").select_option("7")
        expect(page.locator(".note.warn")).to_contain_text("chk-7")  # nothing is there
        troubles.clear()


def test_accumulators_of_a_vertex(stage: Stage, open_page: OpenPage) -> None:
    stage.scene.attempts.accumulators = {"seen": Accumulator(type="IntCounter", value="3")}
    page = settled(open_page(url_of(stage, "vertices")))
    expect(page.locator("td.value")).to_have_text("6")
    expect(page.locator("#accumulators-title")).to_have_text("Accumulators of enrich -> filter")
