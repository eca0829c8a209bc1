"""The page in a real browser: what it shows is what the API says, it stays live, and it works without a mouse."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.browser.accessible import faint_texts, faults, violations
from tests.browser.chromium import OpenPage
from tests.browser.stage import Stage, job_of, long_pipeline, pipeline, pipeline_scene, take
from tests.browser.views import VIEWS, api, forgive_unreadable_state, settled, url_of
from tests.contract.rest.scene import Scene, waiting_for_three
from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, Cluster, running_job, until_triggered
from tidegate.jobmanager.machines.events import JobCancelRequested
from tidegate.jobmanager.service.fault_injector import FaultInjector
from tidegate.jobmanager.service.storage.faulty_storage import FaultyStorage
from tidegate.model.errors import ErrorInfo
from tidegate.model.states import ExecutionState, JobState
from tidegate.pb.taskmanager_pb2 import InjectFaultRequest


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_every_view_is_accessible_and_fits(
    stage: Stage, open_page: OpenPage, troubles: list[str], width: int, theme: str
) -> None:
    stage.do(lambda: until_triggered(stage.scene.cluster, 9))
    stage.look()
    for view in VIEWS:
        page = settled(open_page(url_of(stage, view), width, theme))
        assert faults(page) == [], view
        assert faint_texts(page) == [], view
        assert violations(page) == [], view
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view} is wider than the window"
        for tab in page.locator(".tabs [aria-current=page]").all():
            expect(tab).to_be_in_viewport(ratio=0.9)  # its line lies on the border
        assert "tidegate" in page.title()
        page.close()
    forgive_unreadable_state(troubles)


def test_the_cluster_is_as_the_api_says(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(stage.url))
    overview = api(stage, "overview")
    facts = page.locator(".facts > div")
    expect(facts.nth(0)).to_contain_text(str(overview["taskmanagers"]))
    used = overview["slots-total"] - overview["slots-available"]
    expect(facts.nth(1)).to_contain_text(f"{used} of {overview['slots-total']}")
    expect(page.locator(".slot")).to_have_count(overview["slots-total"])
    expect(page.locator(".slot.used")).to_have_count(used)
    page.locator(".slot.used").first.focus()
    expect(page.locator(".who").first).to_contain_text("window by user, 1 min (1/2)")


def test_task_managers_that_are_on_their_way_are_shown_with_the_job_that_waits(open_page: OpenPage) -> None:
    with Stage(Scene(waiting_for_three())) as waiting:
        page = settled(open_page(waiting.url))
        expect(page.get_by_role("table")).to_contain_text("waits for 9 of 9 slots; 3 TaskManagers starting for ")
        cards = page.locator(".machine")
        expect(cards).to_have_count(3)
        expect(cards.first).to_contain_text("Started by the JobManager: slots: job lacks 9")
        assert violations(page) == []
        assert faint_texts(page) == []


def test_a_checkpoint_travels_as_the_api_says(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(url_of(stage, "travel")))
    details = api(stage, f"jobs/{job_of(stage.scene)}/checkpoints/details/7")
    facts = page.locator(".facts > div")
    expect(facts.nth(0)).to_contain_text(f"{details['end_to_end_duration']} ms")
    expect(facts.nth(2)).to_contain_text(f"{details['num_acknowledged_subtasks']} of {details['num_subtasks']}")
    expect(page.locator("[data-words]")).to_contain_text("the barrier took so long to reach Sink: alerts (1)")
    expect(page.locator(".lane")).to_have_count(details["num_subtasks"] + 1)
    steps = page.locator(".way li strong")
    assert steps.all_inner_texts() == [
        "Source: clicks -> parse (1)",
        "enrich -> filter (2)",
        "Sink: alerts (1)",
        "JobManager",
    ]
    slider = page.get_by_role("slider", name="Time after the trigger")
    slider.fill("0")
    expect(page.locator(".stage").first).to_have_text("2 barrier on its way")
    slider.press("End")
    expect(page.locator(".stage").first).to_have_text("2 done")
    page.get_by_role("link", name="The checkpoint before").click()
    expect(page.locator("h2").first).to_have_text("Checkpoint 6")


def test_a_checkpoint_that_is_not_finished_is_drawn_to_now_with_who_is_missing_and_why(
    stage: Stage, open_page: OpenPage
) -> None:
    cluster = stage.scene.cluster
    stage.do(lambda: until_triggered(cluster, 9))
    stage.do(lambda: cluster.acknowledge(cluster.attempt("Source: clicks -> parse"), 9))
    page = settled(open_page(url_of(stage, "unfinished")))
    expect(page.locator(".lane.open")).to_have_count(9)
    cause = "the trigger waits in it: its output is full, and no busy vertex behind it is known"
    expect(page.locator("[data-words]")).to_contain_text(f"Source: clicks -> parse (2): {cause}.")
    expect(page.locator(".lane.open .cause").first).to_have_text(cause)
    expect(page.locator(".lane.open .cause").nth(2)).to_contain_text(
        "no barrier has come from Source: clicks -> parse (2)"
    )
    stage.do(lambda: cluster.decline(cluster.attempt("enrich -> filter"), 9))
    expect(page.locator(".badge").nth(1)).to_have_text("failed")
    expect(page.locator(".lane.open").first.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("Subtask 2: not acknowledged when it was given up after .*: the trigger waits in it")
    )


def test_a_job_that_is_over_shows_no_rates(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(url_of(stage, "graph")))
    expect(page.locator(".vertex").first).to_contain_text("191/s in")
    stage.do(lambda: stage.scene.post(JobCancelRequested(job_of(stage.scene))))
    stage.do(stage.scene.cluster.cancel_tasks)
    expect(page.locator(".badge").first).to_have_text("canceled")
    expect(page.locator(".facts")).not_to_contain_text("/s")
    expect(page.locator(".graph")).not_to_contain_text("/s")
    expect(page.locator(".vertex .loads b").first).to_have_text("–")


def test_a_job_that_waits_for_slots_is_amber(open_page: OpenPage) -> None:
    cluster = Cluster()
    cluster.register("tm-1", 1)
    cluster.submit(pipeline(), {})
    with Stage(Scene(cluster)) as stage:
        page = settled(open_page(stage.url))
        expect(page.locator(".badge.warn").first).to_have_text("waiting for slots")
        page.goto(f"{stage.url}#/jobs/{job_of(stage.scene)}")
        expect(page.locator("h1 + .badge.warn")).to_have_text("waiting for slots")


def test_commits_that_do_not_succeed_are_a_note_in_amber(stage: Stage, open_page: OpenPage) -> None:
    stage.scene.attempts.user = {"files.failingCommitTime": 95_000}
    page = settled(open_page(url_of(stage, "graph")))
    expect(page.locator(".note.warn")).to_contain_text("Commits do not succeed: readers of Source: clicks -> parse")
    expect(page.locator(".note.warn")).to_contain_text("have seen nothing new for 1 min 35 s")
    cluster = settled(open_page(stage.url))
    expect(cluster.locator(".badge.warn")).to_have_text("commits fail")


def test_attempts_of_a_vertex_are_drawn_over_the_life_of_the_job(stage: Stage, open_page: OpenPage) -> None:
    cluster = stage.scene.cluster
    page = settled(open_page(url_of(stage, "vertices")))
    expect(page.locator("#attempts-title")).to_have_count(0)
    stage.do(lambda: cluster.fail(cluster.attempt("enrich -> filter")))
    stage.do(cluster.cancel_tasks)
    stage.do(lambda: cluster.pass_time(2_000))
    stage.do(cluster.start_tasks)
    lanes = page.locator("#attempts-title").locator("xpath=ancestor::section").get_by_role("img")
    expect(lanes).to_have_count(2)
    expect(lanes.first).to_have_attribute("aria-label", re.compile("Subtask 1: attempt 1 failed after .*, attempt 2 "))
    assert violations(page) == []


def test_a_job_that_was_taken_over_from_an_earlier_jobmanager_says_so(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(url_of(stage, "graph")))
    expect(page.locator(".head")).not_to_contain_text("taken over")
    lifecycle = stage.scene.machine._jobs[stage.scene.machine.jobs()[0].job_id].lifecycle
    stage.do(lambda: lifecycle.timestamps_ms.update({JobState.RECONCILING: lifecycle.timestamps_ms[JobState.CREATED]}))
    expect(page.locator(".head")).to_contain_text("taken over")


def test_it_stays_live(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(url_of(stage, "checkpoints")))
    cluster = stage.scene.cluster
    expect(page.locator(".facts > div").first).to_contain_text("8")
    stage.do(lambda: until_triggered(cluster, 9))
    stage.do(lambda: take(cluster, 9))
    expect(page.locator(".facts > div").first).to_contain_text("9")
    expect(page.get_by_role("row").nth(1)).to_contain_text("completed")
    stage.do(lambda: cluster.fail(cluster.attempt("enrich -> filter")))
    stage.do(cluster.cancel_tasks)
    expect(page.locator(".badge").first).to_have_text("restarting")
    page.get_by_role("link", name="Exceptions").click()
    expect(page.locator(".trace").first).to_contain_text("enrich -> filter (1/2)")


def test_cancel_asks_first(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(url_of(stage, "graph")))
    job = job_of(stage.scene)
    button = page.get_by_role("button", name="Cancel …")
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Cancel the job")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()
    assert api(stage, f"jobs/{job}/status") == {"status": "RUNNING"}
    button.click()
    dialog.get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".badge").first).to_have_text("cancelling")
    assert api(stage, f"jobs/{job}/status") == {"status": "CANCELLING"}
    stage.do(stage.scene.cluster.cancel_tasks)
    expect(page.locator(".badge").first).to_have_text("canceled")
    expect(page.get_by_role("button", name="Cancel …")).to_have_count(0)


def test_a_savepoint_needs_a_directory_and_says_how_it_ended(
    stage: Stage, open_page: OpenPage, troubles: list[str]
) -> None:
    stage.scene.savepoint_directory = False
    page = settled(open_page(url_of(stage, "graph")))
    page.get_by_role("button", name="Savepoint").click()
    dialog = page.get_by_role("dialog", name="Take a savepoint")
    dialog.get_by_role("button", name="Take the savepoint").click()
    expect(dialog).to_be_visible()  # the directory is required
    dialog.get_by_label("Directory").fill("/sp")
    dialog.get_by_role("button", name="Take the savepoint").click()
    expect(page.get_by_role("status").locator(".toast").first).to_contain_text("Taking a savepoint")
    savepoint = wait_for_savepoint(stage)
    stage.do(lambda: take(stage.scene.cluster, savepoint))
    expect(page.get_by_role("status").locator(".toast").last).to_contain_text("The savepoint is ")


def wait_for_savepoint(stage: Stage) -> int:
    """The id of the savepoint that was asked for, after the checkpoint that was under way."""
    cluster = stage.scene.cluster
    history = stage.do(cluster.checkpoints).history
    under_way = [view for view in history if view.status == "IN_PROGRESS"]
    if under_way and not under_way[0].snapshot_type.is_savepoint:
        stage.do(lambda: take(cluster, under_way[0].checkpoint_id))
    (savepoint,) = (view for view in stage.do(cluster.checkpoints).history if view.snapshot_type.is_savepoint)
    return savepoint.checkpoint_id


def test_keys_lead_everywhere(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(url_of(stage, "graph")))
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("3")
    expect(page.get_by_role("heading", name="Durations")).to_be_visible()
    page.keyboard.press("o")
    expect(page.locator("h1")).to_have_text("Configuration")
    page.get_by_role("searchbox").fill("c")
    expect(page.locator("h1")).to_have_text("Configuration")  # a letter that was typed is no key
    page.keyboard.press("Tab")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()


def test_what_users_named_is_text(open_page: OpenPage) -> None:
    name = "<img src=x onerror=document.title='owned'> & <b>bold</b>"
    cluster = running_job(replace(pipeline(), name=name), slots=4)
    with Stage(Scene(cluster)) as stage:
        page = settled(open_page(f"{stage.url}#/jobs/{job_of(stage.scene)}"))
        expect(page.locator("h1")).to_have_text(name)
        assert page.locator("main img, main b b").count() == 0
        assert page.title() == f"{name} · tidegate"


@pytest.mark.parametrize("width", [1280, 390])
def test_a_job_of_many_vertices_with_long_names_fits(open_page: OpenPage, troubles: list[str], width: int) -> None:
    scene = Scene(running_job(long_pipeline(40), {**CHECKPOINTED}, slots=8))
    until_triggered(scene.cluster, 1)
    take(scene.cluster, 1)
    with Stage(scene) as stage:
        stage.look()
        job = scene.machine.jobs()[0]
        for address in {**VIEWS, "travel": "#/jobs/{job}/checkpoints/1"}.values():
            page = settled(
                open_page(stage.url + address.format(job=job.job_id, vertex=job.vertices[2].vertex_id), width)
            )
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
                f"{address} is wider than {width}"
            )
            page.close()
        forgive_unreadable_state(troubles)


def test_a_vertex_none_of_whose_subtasks_has_acknowledged_says_so_beyond_those_that_are_listed(
    open_page: OpenPage,
) -> None:
    scene = Scene(running_job(long_pipeline(20), {**CHECKPOINTED}, slots=8))
    until_triggered(scene.cluster, 1)
    with Stage(scene) as stage:
        page = settled(open_page(f"{stage.url}#/jobs/{job_of(scene)}/checkpoints/1"))
        expect(page.locator(".lane-group").first).to_contain_text("2 more have not acknowledged")
        expect(page.locator(".lane-group").nth(19)).to_contain_text("8 have not acknowledged")


def test_of_a_thousand_subtasks_those_in_sight_are_drawn(open_page: OpenPage) -> None:
    scene = pipeline_scene(parallelism=250, checkpoints=1, slots=250, task_managers=1)
    with Stage(scene) as stage:
        view = scene.machine.jobs()[0].vertices[2]
        page = settled(open_page(f"{stage.url}#/jobs/{job_of(scene)}/vertices/{view.vertex_id}"))
        table = page.locator(".window")
        expect(table.get_by_role("rowheader").first).to_have_text("1")
        assert table.locator("tbody tr").count() < 40
        table.evaluate("(node) => node.scrollTo(0, node.scrollHeight)")
        expect(table.get_by_role("rowheader").last).to_have_text("250")
        table.get_by_role("button", name="Records in").click()
        table.evaluate("(node) => node.scrollTo(0, 0)")
        expect(table.get_by_role("rowheader").first).to_have_text("1")
        page.goto(f"{stage.url}#/jobs/{job_of(scene)}/checkpoints/1")
        expect(page.locator(".lane-group").first).to_contain_text("the slowest 6 of 250")
        page.get_by_role("button", name="Show 100 more").first.click()
        assert page.locator(".lane").count() < 140


def test_a_lost_connection_is_said_and_found_again(stage: Stage, open_page: OpenPage, troubles: list[str]) -> None:
    page = settled(open_page(stage.url))
    page.context.set_offline(True)
    stage.close_streams()
    expect(page.locator(".pulse")).to_have_text("connection lost")
    expect(page.locator("#main")).to_have_css("opacity", "0.55")
    page.context.set_offline(False)
    expect(page.locator(".pulse")).to_have_text("live")
    troubles.clear()


def test_the_scene_is_what_it_seems(stage: Stage) -> None:
    (job,) = stage.scene.machine.jobs()
    assert job.state is JobState.RUNNING
    assert stage.scene.cluster.states() == {ExecutionState.RUNNING}


def test_a_fault_is_made_where_it_is_allowed_and_stands_among_the_exceptions(open_page: OpenPage) -> None:
    async def done(address: str, request: InjectFaultRequest) -> None:
        asked.append(request)

    asked: list[InjectFaultRequest] = []
    scene = pipeline_scene()
    scene.faults = FaultInjector(scene.machine, FaultyStorage(), done, lambda: scene.cluster.now_ms)
    with Stage(scene) as stage:
        page = settled(open_page(url_of(stage, "graph")))
        page.get_by_role("button", name="Fault …").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("spinbutton", name="Subtask").fill("2")
        assert faults(page) == []
        dialog.get_by_role("button", name="Make the fault").click()
        expect(page.locator("#said")).to_contain_text("(2) was killed on TaskManager")
        page.goto(url_of(stage, "exceptions"))
        expect(page.locator(".trace").first).to_contain_text("tidegate.FaultOnPurpose: on purpose: ")
        assert [request.WhichOneof("fault") for request in asked] == ["kill_subtask"]


def test_a_kept_failure_is_shown_with_the_command_that_replays_it(stage: Stage, open_page: OpenPage) -> None:
    kept = ErrorInfo(
        "user-function", "user", "ValueError: bad", details="ValueError: bad", kept_failure="20261129-a1b2c3"
    )
    cluster = stage.scene.cluster
    stage.do(lambda: cluster.fail(cluster.attempts(ExecutionState.RUNNING)[0], kept))
    for width, theme in ((1280, "light"), (390, "dark")):
        page = settled(open_page(url_of(stage, "exceptions"), width, theme))
        entry = page.locator(".trace").first
        expect(entry.locator("code")).to_have_text("tidegate replay 20261129-a1b2c3")
        assert faults(page) == []
        assert faint_texts(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        entry.get_by_role("button", name="Copy").click()
        expect(page.locator("#said")).to_contain_text("The command")
    (shown,) = api(stage, f"jobs/{job_of(stage.scene)}/kept-failures")["failures"]
    assert shown["command"] == "tidegate replay 20261129-a1b2c3"


def test_where_no_fault_is_allowed_there_is_no_button_for_it(stage: Stage, open_page: OpenPage) -> None:
    page = settled(open_page(url_of(stage, "graph")))
    expect(page.get_by_role("button", name="Checkpoint", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Fault …")).to_have_count(0)
