"""Our own page over a real cluster, from submitting a job to cancelling it: what it shows is what the API says. In the secured mode
(``.ci/secured``) by HTTPS, with a user who is signed in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.chromium import OpenPage
from tests.browser.views import forget_refusals, signed_in
from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.waiting import wait_until

SUBMIT_LIMIT_MS = 90_000


def test_from_submit_to_cancel(cluster: Cluster, open_page: OpenPage, troubles: list[str], tmp_path: Path) -> None:
    api = cluster.ask_rest
    page = open_page(cluster.rest_url, believes_all=bool(cluster.token))
    if cluster.token:
        signed_in(page, cluster.token)
        forget_refusals(troubles)  # before the token was said
    facts = page.locator(".facts > div")
    expect(facts.nth(1)).to_contain_text(f"of {api('overview')['slots-total']}")

    job_id = submit(page, tmp_path / "out")
    job = api(f"jobs/{job_id}")
    assert page.locator(".vertex .name").all_inner_texts() == [vertex["name"] for vertex in job["vertices"]]
    total = sum(vertex["parallelism"] for vertex in job["vertices"])
    expect(facts.nth(1)).to_contain_text(f"{total} in {len(job['vertices'])} vertices")
    wait_until(
        lambda: all(
            vertex["tasks"]["RUNNING"] == vertex["parallelism"] for vertex in api(f"jobs/{job_id}")["vertices"]
        ),
        60,
        "all subtasks run",
    )

    see_where_the_time_goes(page, api, job_id, job["vertices"])
    page.get_by_role("button", name="Checkpoint", exact=True).click()
    page.get_by_role("button", name="Take the checkpoint").click()
    toast = page.get_by_role("status").locator(".toast").last
    expect(toast).to_contain_text("is complete.")
    number = toast.inner_text().split()[1]  # one by the timer may have come before
    page.get_by_role("navigation", name="Parts of the job").get_by_role("link", name="Checkpoints").click()
    page.get_by_role("row").get_by_role("link", name=number, exact=True).click()
    details = api(f"jobs/{job_id}/checkpoints/details/{number}")
    assert details["status"] == "COMPLETED"
    expect(facts.nth(2)).to_contain_text(f"{details['num_acknowledged_subtasks']} of {details['num_subtasks']}")
    expect(page.locator(".lane")).to_have_count(details["num_subtasks"] + 1)
    expect(page.locator("[data-words]")).to_contain_text("%):")
    expect(page.locator("main")).to_contain_text(f"/chk-{number}")

    page.get_by_role("button", name="Cancel …").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".badge").first).to_have_text("canceled")
    assert api(f"jobs/{job_id}")["state"] == "CANCELED"
    page.get_by_role("link", name="Cluster").click()
    over = page.get_by_role("region", name="Jobs that are over")
    expect(over.get_by_role("row").filter(has=page.locator(f"a[href='#/jobs/{job_id}']"))).to_contain_text("canceled")


def see_where_the_time_goes(page: Page, api: Callable[[str], Any], job_id: str, vertices: list[Any]) -> None:
    """Stacks of real subtasks are those of their mailbox loops and of waiting for a mail; figures were recorded since it runs."""
    path = f"jobs/{job_id}/vertices/{vertices[0]['id']}/flamegraph"
    wait_until(lambda: api(path)["endTimestamp"] > 0, 60, "stacks are sampled")
    outermost = {stack["name"].rpartition(".")[0] for stack in api(path)["data"]["children"]}
    loop = "tidegate.taskmanager.runtime.subtask.SubtaskLoop"
    assert outermost <= {
        loop,
        "tidegate.taskmanager.runtime.mailbox.Mailbox",
        "tidegate.taskmanager.runtime.launch.SubtaskRun",
    }
    parts = page.get_by_role("navigation", name="Parts of the job")
    parts.get_by_role("link", name="Flames").click()
    expect(page.get_by_role("button", name="All samples: 100 % of the samples")).to_be_visible()
    parts.get_by_role("link", name="Plots").click()
    expect(page.get_by_role("img", name="Records per second")).to_be_visible()


def submit(page: Page, output: Path) -> str:
    """By the form; the page then shows the job."""
    page.get_by_role("link", name="Submit a job").click()
    page.get_by_label("Job file").set_input_files(JOBS / "slow.py")
    page.get_by_label("Arguments").fill(f"--rows 1000000 --pause 0.2 --interval 3600000 --output '{output}'")
    page.get_by_label("Parallelism").fill("2")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_role("heading", name="Plan of slow")).to_be_visible(timeout=SUBMIT_LIMIT_MS)
    expect(page.locator(".vertex").first).to_contain_text("2 subtasks")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("h1")).to_have_text("slow", timeout=SUBMIT_LIMIT_MS)
    expect(page.locator(".badge").first).to_have_text("running")
    return page.url.rpartition("/")[2]
