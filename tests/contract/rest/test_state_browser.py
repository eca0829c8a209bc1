"""The state of a checkpoint over HTTP: which are read, and what is refused before anything is."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.stage import pipeline_scene
from tests.contract.rest.asking import Client, ask, serving
from tests.contract.rest.scene import Scene
from tests.unit.tidegate.state_reader.real_checkpoint import KEYS, place_as, two_checkpoints


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield two_checkpoints(Path(path), "rest")[0]


def scene_with(real: str, directory: Path, settings: dict[str, str] | None = None) -> Scene:
    """A job whose last checkpoint lies where its machine says."""
    scene = pipeline_scene(directory=str(directory), job_settings=settings)
    last = scene.machine.jobs()[0].checkpoints.history[0]
    place_as(real, last.location, last.checkpoint_id)
    return scene


async def get(scene: Scene, client: Client, status: int, **query: str) -> object:
    job = scene.machine.jobs()[0].job_id
    text = "&".join(f"{name}={value}" for name, value in {"job": str(job), "checkpoint": "8", **query}.items())
    return await ask(client, "GET", f"/web/state?{text}", status)


async def test_operators_then_rows_then_a_key(real: str, tmp_path: Path) -> None:
    scene = scene_with(real, tmp_path)
    async with serving(scene) as client:
        overview = await get(scene, client, 200)
        assert isinstance(overview, dict)
        assert overview["checkpoint"] == 8
        assert "remember" in [operator["title"] for operator in overview["operators"]]
        rows = await get(scene, client, 200, operator="remember", state="count")
        assert isinstance(rows, dict)
        assert len(rows["rows"]) == KEYS
        found = await get(scene, client, 200, operator="remember", state="count", key="3")
        assert isinstance(found, dict)
        assert [row[1] for row in found["rows"]] == ["3"]


async def test_only_checkpoints_that_the_job_has_are_read(real: str, tmp_path: Path) -> None:
    scene = scene_with(real, tmp_path)
    async with serving(scene) as client:
        await get(scene, client, 404, checkpoint="99")
        await get(scene, client, 404, checkpoint="1")  # removed by newer ones
        await get(scene, client, 400, checkpoint="../8")
        await get(scene, client, 404, job="0" * 32)
        await get(scene, client, 400, job="no job")
        refused = await get(scene, client, 409, checkpoint="7")
        assert "chk-7" in str(refused)
        assert "no state 'x'" in str(await get(scene, client, 409, operator="remember", state="x"))


async def test_where_records_must_not_be_shown_state_is_not(real: str, tmp_path: Path) -> None:
    scene = scene_with(real, tmp_path, {"tidegate.failure.show-record": "SHAPE"})
    async with serving(scene) as client:
        await get(scene, client, 200)
        refused = await get(scene, client, 403, operator="remember", state="count")
        assert "tidegate.failure.show-record" in str(refused)
