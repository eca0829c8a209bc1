"""Files of the page and of Flink's dashboard: types, headers, tags; nothing outside of the list."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import yarl

from tests.contract.rest.asking import ask, serving
from tests.contract.rest.scene import RETAINED, Scene, recorded_scene
from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, JOB, running_job
from tidegate.jobmanager.web.pages import STATIC
from tidegate.model.errors import ConfigurationError


async def test_the_page_runs_nothing_inline_and_is_framed_by_nobody() -> None:
    async with serving(recorded_scene()) as client:
        answer = await client.get("/")
        text = await answer.text()
        policy = answer.headers["content-security-policy"]
        assert answer.headers["content-type"] == "text/html; charset=UTF-8"
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "<style" not in text
        assert "onclick" not in text
        assert all("://" not in line for line in text.splitlines())


@pytest.mark.parametrize(
    ("name", "kind"),
    [("app.js", "text/javascript"), ("base.css", "text/css"), ("icon.svg", "image/svg+xml")],
)
async def test_files_have_their_types(name: str, kind: str) -> None:
    async with serving(recorded_scene()) as client:
        answer = await client.get(f"/web/{name}")
        assert answer.headers["content-type"].startswith(kind)
        assert await answer.read() == (STATIC / name).read_bytes()


async def test_who_has_a_file_is_told_so() -> None:
    async with serving(recorded_scene()) as client:
        tag = (await client.get("/web/app.js")).headers["etag"]
        again = await client.get("/web/app.js", headers={"If-None-Match": tag})
        assert (again.status, await again.read()) == (304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "../pages.py", "%2e%2e/pages.py", "..%2fpages.py", "static/app.js", ""])
async def test_nothing_else_is_served(name: str) -> None:
    async with serving(recorded_scene()) as client:
        url = yarl.URL(f"{client.make_url('/')}web/{name}", encoded=True)
        async with client.session.get(url) as answer:
            assert answer.status == 404
            assert list(await answer.json()) == ["errors"]


async def test_settings_tell_what_is_set_by_whom() -> None:
    scene = Scene(running_job(configuration={**CHECKPOINTED, **RETAINED}), {"s3.secret-key": "hush"})
    async with serving(scene) as client:
        of_job = {row["key"]: row for row in await ask(client, "GET", f"/web/settings?job={JOB}", 200)}
        interval = of_job["execution.checkpointing.interval"]
        assert (interval["value"], interval["default"], interval["origin"]) == ("1 s", "", "cluster")
        assert of_job["execution.checkpointing.timeout"]["origin"] == "default"
        of_cluster = {row["key"]: row for row in await ask(client, "GET", "/web/settings", 200)}
        assert of_cluster["rest.cache.execution-graph.timeout"]["origin"] == "cluster"
        assert "hush" not in str(of_cluster)
        await ask(client, "GET", "/web/settings?job=1", 404)
        await ask(client, "GET", f"/web/settings?job={'0' * 32}", 404)


def dashboard(directory: Path) -> Path:
    """As Flink's distribution keeps it."""
    jar = directory / "dist.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("web/index.html", "<title>dashboard</title>")
        archive.writestr("web/assets/main.js", "1")
        archive.writestr("org/Secret.class", "no")
    return jar


@pytest.mark.parametrize("unpacked", [True, False])
async def test_the_dashboard_and_below_it_the_api(tmp_path: Path, unpacked: bool) -> None:
    place = dashboard(tmp_path)
    if unpacked:
        zipfile.ZipFile(place).extractall(tmp_path / "all")
        place = tmp_path / "all" / "web"
    scene = recorded_scene()
    async with serving(Scene(scene.cluster, {"rest.dashboard.dir": str(place)})) as client:
        moved = await client.get("/flink", allow_redirects=False)
        assert (moved.status, moved.headers["location"]) == (302, "/flink/")
        assert "dashboard" in await (await client.get("/flink/")).text()
        assert (await client.get("/flink/assets/main.js")).headers["content-type"].startswith("text/javascript")
        assert (await ask(client, "GET", "/flink/overview", 200)) == (await ask(client, "GET", "/overview", 200))
        await ask(client, "GET", f"/flink/jobs/{JOB}/vertices/zz", 400)
        await ask(client, "GET", "/flink/org/Secret.class", 404)
        foreign = {"Origin": "http://evil.example"}
        await ask(client, "PATCH", f"/flink/jobs/{JOB}?mode=cancel", 403, headers=foreign)
        await ask(client, "PATCH", f"/flink/jobs/{JOB}?mode=cancel", 202)


async def test_without_its_files_there_is_no_dashboard(tmp_path: Path) -> None:
    async with serving(recorded_scene()) as client:
        await ask(client, "GET", "/flink/", 404)
    with pytest.raises(ConfigurationError, match=r"rest\.dashboard\.dir: there is no index\.html"):
        serving(Scene(recorded_scene().cluster, {"rest.dashboard.dir": str(tmp_path)}))
