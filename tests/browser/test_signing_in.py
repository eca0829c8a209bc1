"""Signing in on the page, where a cluster has users: the tab keeps the token, and shows what its user may do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from playwright.sync_api import Page, expect

from tests.aio.jobmanager.callers import one_of_each
from tests.browser.accessible import faults, violations
from tests.browser.chromium import OpenPage
from tests.browser.stage import Stage, pipeline_scene, take
from tests.browser.views import dialog_of, forget_refusals, settled, sign_in, signed_in, url_of
from tests.certificates import make_authority, write_stores
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.unit.jobmanager.machines.cluster_kit import until_triggered
from tidegate.security.user_file import remove_user
from tidegate.security.users import Role

ACTIONS = ("Checkpoint", "Savepoint", "Stop …", "Cancel …")
PLACES = {
    Role.VIEW: ["Cluster", "Configuration"],
    Role.DATA: ["Cluster", "Configuration", "Logs"],
    Role.OPERATE: ["Cluster", "Configuration", "Logs"],
    Role.DEPLOY: ["Cluster", "Submit a job", "Configuration", "Logs"],
}


@pytest.fixture
def users(tmp_path: Path) -> Path:
    return tmp_path / "users"


@pytest.fixture
def tokens(users: Path) -> dict[Role, str]:
    return one_of_each(users)


@pytest.fixture
def stage(tmp_path: Path, users: Path, tokens: dict[Role, str]) -> Iterator[Stage]:
    """With users, and a dashboard of a kind."""
    dashboard = tmp_path / "dashboard"
    dashboard.mkdir()
    (dashboard / "index.html").write_text("<title>dashboard</title>")
    settings = {
        "tidegate.security.users.file": str(users),
        "rest.dashboard.dir": str(dashboard),
        "env.log.dir": str(tmp_path),
    }
    with Stage(pipeline_scene(settings=settings)) as stage:
        yield stage


@pytest.fixture(autouse=True)
def forgiven(open_page: OpenPage, troubles: list[str]) -> Iterator[None]:
    """What the browser says of requests of those who are not signed in."""
    yield
    forget_refusals(troubles)


@pytest.mark.parametrize("role", Role)
def test_the_page_shows_what_a_role_may_do(
    role: Role, stage: Stage, open_page: OpenPage, tokens: dict[Role, str]
) -> None:
    page = signed_in(open_page(url_of(stage, "graph")), tokens[role])
    expect(page.get_by_role("button", name=f"Sign out the-{role.value}")).to_be_visible()
    assert page.get_by_role("navigation", name="Main").get_by_role("link").all_inner_texts() == PLACES[role]
    for action in ACTIONS:
        shown = page.get_by_role("button", name=action, exact=True)
        expect(shown).to_have_count(1 if role.includes(Role.OPERATE) else 0)
    tabs = page.get_by_role("navigation", name="Parts of the job")
    expect(tabs.get_by_role("link", name="Exceptions")).to_have_count(1)
    for tab in ("Flames", "State"):
        expect(tabs.get_by_role("link", name=tab)).to_have_count(1 if role.includes(Role.DATA) else 0)


def test_who_goes_where_the_role_is_too_small_is_told_which_one_it_needs(
    stage: Stage, open_page: OpenPage, tokens: dict[Role, str]
) -> None:
    page = signed_in(open_page(url_of(stage, "graph")), tokens[Role.VIEW])
    for key in ("l", "s"):
        page.keyboard.press(key)
    assert page.url == url_of(stage, "graph")
    for view, needed in {"logs": "data", "state": "data", "flames": "data", "submit": "deploy"}.items():
        page.goto(url_of(stage, "graph"))
        expect(page.locator(".note")).to_have_count(0)  # the note of the view before has the same text
        page.goto(url_of(stage, view))
        expect(page.locator(".note")).to_have_text(f"This needs the role {needed}; the-view has the role view.")
        expect(page.locator("h1")).to_be_visible()
        assert (faults(page), violations(page)) == ([], []), view


def test_a_token_that_is_none_is_refused_in_words(stage: Stage, open_page: OpenPage, tokens: dict[Role, str]) -> None:
    page = open_page(stage.url)
    sign_in(page, "tgu_wrong")
    expect(dialog_of(page).get_by_role("alert")).to_have_text("The token belongs to no user of this cluster.")
    assert violations(page) == []
    assert kept(page) is None
    signed_in(page, tokens[Role.VIEW])


def test_a_tab_keeps_the_token_when_it_is_loaded_again_and_another_one_asks(
    stage: Stage, open_page: OpenPage, tokens: dict[Role, str]
) -> None:
    page = signed_in(open_page(stage.url), tokens[Role.VIEW])
    page.reload()
    settled(page)
    expect(page.get_by_role("button", name="Sign out the-view")).to_be_visible()
    other = page.context.new_page()
    other.goto(stage.url)
    expect(dialog_of(other)).to_be_visible()
    expect(dialog_of(page)).to_have_count(0)


def test_flinks_dashboard_has_a_cookie_that_no_script_can_read(
    stage: Stage, open_page: OpenPage, tokens: dict[Role, str]
) -> None:
    page = signed_in(open_page(stage.url), tokens[Role.VIEW])
    [cookie] = page.context.cookies(f"{stage.url}flink/")
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/flink")
    assert page.evaluate("document.cookie") == ""
    assert page.context.cookies(stage.url) == []
    other = page.context.new_page()
    for path, status in (("flink/", 200), ("flink/overview", 200), ("overview", 401)):
        answer = other.goto(f"{stage.url}{path}")
        assert answer is not None
        assert answer.status == status, path
    assert other.goto(f"{stage.url}flink/") is not None
    assert other.evaluate("document.cookie") == ""


def test_by_https_too_and_the_cookie_is_then_a_secure_one(
    tmp_path: Path, users: Path, open_page: OpenPage, tokens: dict[Role, str]
) -> None:
    now, validity = datetime.now(UTC), timedelta(days=1)
    authority = make_authority(now, validity)
    keystore, _ = write_stores(tmp_path / "stores", authority, authority, now, validity)
    settings = {
        "tidegate.security.users.file": str(users),
        "rest.dashboard.dir": str(tmp_path / "dashboard"),
        "env.log.dir": str(tmp_path),
        "security.ssl.rest.enabled": "true",
        "security.ssl.rest.keystore": str(keystore),
    }
    (tmp_path / "dashboard").mkdir()
    (tmp_path / "dashboard" / "index.html").write_text("<title>dashboard</title>")
    with Stage(pipeline_scene(settings=settings)) as secured:
        assert secured.url.startswith("https://")
        page = signed_in(open_page(url_of(secured, "checkpoints"), believes_all=True), tokens[Role.OPERATE])
        completed = page.locator(".facts > div").first
        expect(completed).to_contain_text("8")
        secured.do(lambda: until_triggered(secured.scene.cluster, 9))
        secured.do(lambda: take(secured.scene.cluster, 9))
        expect(completed).to_contain_text("9")  # by the stream of events
        [cookie] = page.context.cookies(f"{secured.url}flink/")
        assert (cookie["secure"], cookie["httpOnly"], cookie["path"]) == (True, True, "/flink")
        answer = page.context.new_page().goto(f"{secured.url}flink/")
        assert answer is not None
        assert answer.status == 200
        certificate = answer.security_details()
        assert certificate is not None
        assert certificate["issuer"] == "tidegate cluster"
        page.context.close()
        port = urlsplit(secured.url).port
        wait_until(lambda: not connected(port), HANG_LIMIT_S, "the browser has hung up, and the stage has seen it")


def connected(port: int | None) -> list[object]:
    """The ends of connections to this port that this process has; by TLS it closes one when the other end has said so."""
    of_process = psutil.Process().net_connections("tcp")
    return [one for one in of_process if one.laddr.port == port and one.status != psutil.CONN_LISTEN]


def test_who_signs_out_leaves_nothing(stage: Stage, open_page: OpenPage, tokens: dict[Role, str]) -> None:
    page = signed_in(open_page(url_of(stage, "graph")), tokens[Role.OPERATE])
    page.get_by_role("button", name="Sign out the-operate").click()
    expect(dialog_of(page)).to_be_visible()
    expect(page.locator(".vertex")).to_have_count(0)
    assert kept(page) is None
    assert page.context.cookies(f"{stage.url}flink/") == []
    page.reload()
    expect(dialog_of(page)).to_be_visible()


def test_a_user_who_is_removed_is_asked_again_and_sees_nothing_more(
    stage: Stage, users: Path, open_page: OpenPage, tokens: dict[Role, str]
) -> None:
    page = signed_in(open_page(url_of(stage, "graph")), tokens[Role.VIEW])
    expect(page.locator(".vertex").first).to_be_visible()
    remove_user(users, "the-view")
    expect(dialog_of(page)).to_be_visible()
    expect(page.locator(".vertex")).to_have_count(0)
    assert kept(page) is None


def test_it_stays_live_with_a_token_and_comes_back_when_the_connection_was_lost(
    stage: Stage, open_page: OpenPage, troubles: list[str], tokens: dict[Role, str]
) -> None:
    page = signed_in(open_page(url_of(stage, "checkpoints")), tokens[Role.VIEW])
    completed = page.locator(".facts > div").first
    expect(completed).to_contain_text("8")
    stage.do(lambda: until_triggered(stage.scene.cluster, 9))
    stage.do(lambda: take(stage.scene.cluster, 9))
    expect(completed).to_contain_text("9")
    page.context.set_offline(True)
    stage.close_streams()
    expect(page.locator(".pulse")).to_have_text("connection lost")
    page.context.set_offline(False)
    expect(page.locator(".pulse")).to_have_text("live")
    stage.do(lambda: until_triggered(stage.scene.cluster, 10))
    stage.do(lambda: take(stage.scene.cluster, 10))
    expect(completed).to_contain_text("10")
    troubles.clear()


def test_a_log_file_is_saved_whole(stage: Stage, open_page: OpenPage, tokens: dict[Role, str]) -> None:
    page = signed_in(open_page(f"{stage.url}#/logs/tm-1"), tokens[Role.DATA])
    with page.expect_download() as saved:
        page.get_by_role("link", name="Whole file").click()
    assert saved.value.suggested_filename == "taskmanager.log"
    assert saved.value.path().read_text() == "a line\n"


def kept(page: Page) -> object:
    """The token that the tab has."""
    return page.evaluate("sessionStorage.getItem('tidegate.token')")
