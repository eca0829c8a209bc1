"""A recorded scene and a client of its endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contract.rest.asking import Client, serving
from tests.contract.rest.scene import Scene, recorded_scene


@pytest.fixture
def scene() -> Scene:
    return recorded_scene()


@pytest.fixture
async def client(scene: Scene) -> AsyncIterator[Client]:
    async with serving(scene) as client:
        yield client
