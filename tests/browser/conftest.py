"""Tests of pages start a browser: one at a time, with the other processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.stage import Stage, pipeline_scene

HERE = Path(__file__).parent
LIMIT_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(LIMIT_S, method="signal"), append=False)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(pipeline_scene()) as stage:
        yield stage
