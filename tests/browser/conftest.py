"""A real browser: the system's Chromium, driven by Playwright. Pages fail a test when they log an error or a request fails."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, expect, sync_playwright

HERE = Path(__file__).parent
LIMIT_S = 120
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PAGE_LIMIT_MS = 30_000
expect.set_options(timeout=PAGE_LIMIT_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They start processes."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(LIMIT_S, method="signal"), append=False)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("there is no Chromium: install the system's package (Debian: chromium)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def troubles() -> list[str]:
    """What pages of this test complained about; a test that causes some on purpose clears it."""
    return []


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, troubles: list[str]) -> Iterator[OpenPage]:
    """``open_page(url, width=1280, theme="light")``."""
    contexts = []

    def opened(url: str, width: int = 1280, theme: str = "light") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if theme == "dark" else "light",
            reduced_motion="reduce",
        )
        context.set_default_timeout(PAGE_LIMIT_MS)
        contexts.append(context)
        page = context.new_page()
        watch(page, troubles)
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


def watch(page: Page, troubles: list[str]) -> None:
    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            troubles.append(f"console {message.type}: {message.text}")

    def on_response(response: Response) -> None:
        if response.status >= 400:
            troubles.append(f"{response.status} {response.url}")

    def on_failed(request: Request) -> None:
        if "ERR_ABORTED" not in str(request.failure):  # the page left
            troubles.append(f"{request.failure} {request.url}")

    page.on("console", on_console)
    page.on("response", on_response)
    page.on("requestfailed", on_failed)
    page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
