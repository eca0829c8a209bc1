"""Logs on the page: levels are coloured and chosen, a stack trace stays with its entry, and a file is followed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.accessible import faint_texts, faults, violations
from tests.browser.chromium import OpenPage
from tests.browser.stage import Stage, pipeline_scene
from tests.browser.views import settled
from tests.contract.rest.scene import Inspected
from tidegate.aio.inspection import LogFile

LOG = """2026-11-30 10:00:00,000 INFO  tidegate.taskmanager - slots are offered
2026-11-30 10:00:01,000 WARN  tidegate.taskmanager - a heartbeat is late
2026-11-30 10:00:02,000 ERROR tidegate.taskmanager - price failed
Traceback (most recent call last):
ZeroDivisionError: division by zero
2026-11-30 10:00:03,000 INFO  tidegate.taskmanager - price runs again
"""


class Logging(Inspected):
    """A TaskManager whose log grows, and which has printed something later."""

    def __init__(self) -> None:
        self.log = LOG

    async def logs(self, address: str) -> list[LogFile]:
        return [
            LogFile("printed.out", 5, 1_800_000_000_000),
            LogFile("taskmanager.log", len(self.log), 1_700_000_000_000),
        ]

    async def read_log(self, address: str, name: str) -> bytes:
        return self.log.encode() if name == "taskmanager.log" else b"hello"


@pytest.fixture
def logged() -> Iterator[tuple[Stage, Logging]]:
    scene, inspected = pipeline_scene(checkpoints=0), Logging()
    scene.inspector = inspected
    with Stage(scene) as stage:
        yield stage, inspected


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_levels_are_coloured_and_chosen_and_a_file_is_followed(
    logged: tuple[Stage, Logging], open_page: OpenPage, width: int, theme: str
) -> None:
    stage, inspected = logged
    page = settled(open_page(f"{stage.url}#/logs/tm-1", width, theme))
    log = page.locator("pre.log")
    expect(page.get_by_role("heading", name="taskmanager.log")).to_be_visible()
    expect(log.locator(".error")).to_have_text(
        "2026-11-30 10:00:02,000 ERROR tidegate.taskmanager - price failed\nTraceback (most recent call last):\nZeroDivisionError: division by zero\n"
    )
    expect(log.locator(".warn")).to_have_count(1)
    assert faults(page) == []
    assert faint_texts(page) == []
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("combobox", name="Levels").select_option(label="WARN and above")
    expect(log).not_to_contain_text("INFO")
    expect(log).to_contain_text("a heartbeat is late")
    page.get_by_role("searchbox", name="Only lines with").fill("zerodivision")
    expect(log).to_contain_text("price failed")
    expect(log).not_to_contain_text("heartbeat")
    page.get_by_role("searchbox", name="Only lines with").fill("")
    page.get_by_role("checkbox", name="Follow").check()
    inspected.log += "2026-11-30 10:00:04,000 ERROR tidegate.taskmanager - and again\n"
    expect(log).to_contain_text("and again")
