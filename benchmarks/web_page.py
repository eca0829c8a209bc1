"""What one update of the page costs the browser's main thread, with a job of 1,000 subtasks.

    python -m benchmarks.web_page

Chromium's own counters in thread time (what other processes take does not count): script, style, layout and all tasks, by
update of the page. The job is a scene driven by hand, whose counters grow and whose checkpoints go on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial

from playwright.sync_api import CDPSession, Page, sync_playwright

from tests.browser.chromium import ARGUMENTS, NAMES
from tests.browser.stage import Stage, job_of, pipeline_scene, take
from tests.contract.rest.scene import Counted, Scene
from tests.unit.jobmanager.machines.cluster_kit import until_triggered
from tidegate.model.ids import AttemptId
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.wire.task_metrics import ReadingSpan

PARALLELISM = 250
UPDATES = 10
NAMES_OF = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration", "TaskDuration")


class Growing(Counted):
    """Every reading is another one: nothing is the same at two updates."""

    def __init__(self) -> None:
        super().__init__()
        self.round = 0

    def span_of(self, attempt: AttemptId) -> ReadingSpan | None:
        span = super().span_of(attempt)
        assert span is not None
        later = TaskMetrics()
        later.CopyFrom(span.later)
        later.records_in += self.round * (1 + attempt.subtask)
        later.busy_ms += self.round * 37 % 5_000
        return ReadingSpan(span.earlier, later, span.duration_ms, span.until_ms)


def measured(page: Page, session: CDPSession, change: Callable[[], None]) -> dict[str, float]:
    """Milliseconds by update."""
    before, updates = counters(session), drawn(page)
    for _ in range(UPDATES):
        seen = drawn(page)
        change()
        while drawn(page) == seen:
            page.wait_for_timeout(20)
        page.wait_for_timeout(600)
    after, updates = counters(session), drawn(page) - updates
    return {name: 1000 * (after[name] - before[name]) / updates for name in NAMES_OF}


def counters(session: CDPSession) -> dict[str, float]:
    return {entry["name"]: entry["value"] for entry in session.send("Performance.getMetrics")["metrics"]}


def drawn(page: Page) -> int:
    return int(page.evaluate("performance.getEntriesByName('tg-update').length"))


def main() -> None:
    scene: Scene = pipeline_scene(parallelism=PARALLELISM, checkpoints=2, slots=PARALLELISM, task_managers=1)
    growing = Growing()
    scene.attempts = growing
    job = scene.machine.jobs()[0]
    browser_path = next(path for name in NAMES if (path := shutil.which(name)))
    checkpoints = [2]

    def grow(stage: Stage) -> None:
        growing.round += 1
        stage.do(lambda: None)

    def checkpoint(stage: Stage) -> None:
        checkpoints[0] += 1
        stage.do(lambda: until_triggered(scene.cluster, checkpoints[0]))
        stage.do(lambda: take(scene.cluster, checkpoints[0]))

    base = f"#/jobs/{job_of(scene)}"
    views = {
        "graph": (base, grow),
        "subtasks of a vertex": (f"{base}/vertices/{job.vertices[2].vertex_id}", grow),
        "checkpoints": (f"{base}/checkpoints", checkpoint),
        "one checkpoint": (f"{base}/checkpoints/2", grow),
        "cluster": ("#/", checkpoint),
    }
    with Stage(scene) as stage, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=ARGUMENTS)
        for name, (path, change) in views.items():
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            page.goto(stage.url + path)
            page.wait_for_selector("h1")
            page.wait_for_timeout(1_500)
            found = measured(page, session, partial(change, stage))
            print(f"{name:24}", "  ".join(f"{key.removesuffix('Duration')} {ms:6.1f} ms" for key, ms in found.items()))
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
