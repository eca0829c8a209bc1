"""Where the views of the page are, and when they show what they asked for."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.request import urlopen

from playwright.sync_api import Locator, Page, expect

from tests.browser.stage import Stage

VIEWS = {
    "cluster": "#/",
    "graph": "#/jobs/{job}",
    "vertices": "#/jobs/{job}/vertices/{vertex}",
    "checkpoints": "#/jobs/{job}/checkpoints",
    "travel": "#/jobs/{job}/checkpoints/7",
    "unfinished": "#/jobs/{job}/checkpoints/9",
    "plots": "#/jobs/{job}/plots",
    "flames": "#/jobs/{job}/flames/{vertex}",
    "plots of a vertex": "#/jobs/{job}/plots/{vertex}",
    "state": "#/jobs/{job}/state",
    "exceptions": "#/jobs/{job}/exceptions",
    "settings": "#/jobs/{job}/configuration",
    "configuration": "#/configuration",
    "logs": "#/logs",
    "submit": "#/submit",
}


def url_of(stage: Stage, view: str) -> str:
    job = stage.scene.machine.jobs()[0]
    return stage.url + VIEWS[view].format(job=job.job_id, vertex=job.vertices[2].vertex_id)


def api(stage: Stage, path: str) -> Any:
    with urlopen(stage.url + path, timeout=20) as answer:
        return json.load(answer)


def settled(page: Page) -> Page:
    """Until the view shows what it asked for."""
    expect(page.locator(".pulse")).to_have_text("live")
    expect(page.locator("main")).not_to_contain_text("Asking the JobManager")
    expect(page.locator("main")).not_to_contain_text("is read …")
    expect(page.locator("h1")).to_be_visible()
    return page


def dialog_of(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Sign in")


def sign_in(page: Page, token: str) -> None:
    dialog = dialog_of(page)
    dialog.get_by_label("Token").fill(token)
    dialog.get_by_role("button", name="Sign in").click()


def signed_in(page: Page, token: str) -> Page:
    sign_in(page, token)
    expect(dialog_of(page)).to_have_count(0)
    return settled(page)


def forgive_unreadable_state(troubles: list[str]) -> None:
    """Removes what the browser said of the answers 409 to the state view of a scene whose checkpoints lie on no disk."""
    assert any("/web/state?" in trouble for trouble in troubles)
    troubles[:] = [trouble for trouble in troubles if not re.search(r"^409 .*/web/state\?|status of 409", trouble)]


def forget_refusals(troubles: list[str]) -> None:
    """Removes what the browser said of requests without a token."""
    troubles[:] = [trouble for trouble in troubles if "401" not in trouble]
