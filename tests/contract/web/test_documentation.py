"""The documentation below /docs/: a built site and nothing beside it, and what to do where there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yarl

from tests.contract.rest.asking import serving
from tests.contract.rest.scene import recorded_scene
from tidegate.jobmanager.web import documentation


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "html"
    monkeypatch.setattr(documentation.Documentation.__init__, "__defaults__", ((tmp_path / "none", folder),))
    return folder


def build(site: Path, version: str) -> None:
    (site / version).mkdir(parents=True)
    (site / "index.html").write_text(version, encoding="utf-8")
    (site / version / "index.html").write_text(f"page of {version}", encoding="utf-8")


async def test_a_site_is_served_with_its_folders(site: Path) -> None:
    build(site, "0.1.0")
    async with serving(recorded_scene()) as client:
        leads = await client.get("/docs", allow_redirects=False)
        assert (leads.status, leads.headers["location"]) == (302, "/docs/")
        assert await (await client.get("/docs/")).text() == "0.1.0"
        page = await client.get("/docs/0.1.0/")
        assert await page.text() == "page of 0.1.0"
        assert page.headers["content-type"] == "text/html; charset=UTF-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    "name", ["nothing.html", "../secret", "%2e%2e/secret", "..%2fsecret", "0.1.0/../../secret", "link"]
)
async def test_nothing_else_is_served(site: Path, name: str) -> None:
    build(site, "0.1.0")
    (site.parent / "secret").write_text("for nobody", encoding="utf-8")
    (site / "link").symlink_to(site.parent / "secret")
    async with serving(recorded_scene()) as client:
        url = yarl.URL(f"{client.make_url('/')}docs/{name}", encoded=True)
        async with client.session.get(url) as answer:
            assert answer.status == 404
            assert "for nobody" not in await answer.text()


async def test_where_none_is_built_the_page_says_how_and_then_shows_it(site: Path) -> None:
    async with serving(recorded_scene()) as client:
        told = await client.get("/docs/")
        assert told.status == 404
        assert "make docs" in await told.text()
        build(site, "0.1.0")
        assert await (await client.get("/docs/")).text() == "0.1.0"
        build(site, "0.2.0")
        os.utime(site / "index.html", ns=(1, 1))
        assert await (await client.get("/docs/0.2.0/index.html")).text() == "page of 0.2.0"
