#!/usr/bin/env python3
"""Make the pictures of the web page in `docs/images` anew: a scene driven by hand, in the system's Chromium.

python docs/screenshots.py       writes web_graph.png and web_checkpoint.png
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from playwright.sync_api import Page, sync_playwright  # noqa: E402

from tests.browser.chromium import ARGUMENTS, NAMES  # noqa: E402
from tests.browser.stage import Stage, job_of, pipeline_scene  # noqa: E402
from tests.unit.jobmanager.machines.cluster_kit import Cluster  # noqa: E402

WIDTH, HEIGHT, HEIGHT_OF_GRAPH = 1280, 1420, 720
CHECKPOINT = 7


def main() -> int:
    """Exit code: 0 when both pictures were written."""
    executable = next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        print("there is no Chromium on this machine", file=sys.stderr)
        return 1
    Cluster.START_MS = 1_763_726_880_000
    scene = pipeline_scene(parallelism=4, slots=4)
    with Stage(scene) as stage, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="dark", timezone_id="UTC")
        job = f"{stage.url}#/jobs/{job_of(scene)}"
        page.goto(job)
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT_OF_GRAPH})
        _take(page, "svg, .graph", "web_graph.png")
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        page.goto(f"{job}/checkpoints/{CHECKPOINT}")
        page.locator("input[type=range]").fill("29")  # when barriers are on their way
        _take(page, "text=Time by subtask", "web_checkpoint.png")
        browser.close()
    return 0


def _take(page: Page, shown: str, name: str) -> None:
    """When what the picture is of is shown."""
    page.locator(shown).first.wait_for()
    page.screenshot(path=str(DOCS / "images" / name))
    print(f"wrote docs/images/{name}")


if __name__ == "__main__":
    sys.exit(main())
