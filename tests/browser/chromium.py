"""A real browser for tests of any folder: the system's Chromium, driven by Playwright.

A page fails its test when it logs an error or a warning, and when a request is answered with an error.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response

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
PAGE_LIMIT_MS = 90_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import expect, sync_playwright

    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail("there is no Chromium: install the system's package (Debian: chromium)")
    expect.set_options(timeout=PAGE_LIMIT_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def troubles() -> list[str]:
    """What pages of this test complained about; a test that causes some on purpose clears it."""
    return []


OpenPage = Callable[..., "Page"]


@pytest.fixture
def open_page(browser: Browser, troubles: list[str]) -> Iterator[OpenPage]:
    """``open_page(url, width=1280, theme="light")``; ``believes_all``: servers whose certificate is of an authority of a test."""
    contexts: list[BrowserContext] = []

    def opened(url: str, width: int = 1280, theme: str = "light", *, believes_all: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if theme == "dark" else "light",
            reduced_motion="reduce",
            ignore_https_errors=believes_all,
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
