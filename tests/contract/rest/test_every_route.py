"""Every route, asked with good and with odd parameters: an answer in Flink's shape, and no failure that was not meant."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from tests.architecture.source import ROOT
from tests.contract.rest.asking import endpoint_of, serving
from tests.contract.rest.scene import Scene, recorded_scene
from tests.unit.jobmanager.machines.cluster_kit import JOB, running_job, vertex_id
from tidegate.jobmanager.rest.required_roles import OPEN_PATHS, REST_ROLES
from tidegate.model.ids import hex_id

GOOD = {
    "jobid": JOB,
    "vertexid": vertex_id("sink"),
    "subtaskindex": "0",
    "attempt": "0",
    "checkpointid": "2",
    "taskmanagerid": "tm-1",
}
ODD = ["0", "-1", "%20", "..%2f..", "%00", "%ff", "x" * 300, hex_id("nobody"), "９", "null"]
QUERY = "get=%00,a&agg=MAX&mode=cancel&maxExceptions=1&type=full&subtaskindex=0&subtasks=0-999999999999&jobs=x"
OURS = ("/openapi.json", "/workers", "/faults", "/jobs/:jobid/kept-failures")
"""Paths that Flink's API does not have."""
MEANT = "<Exception on server side:"


def route_keys() -> list[tuple[str, str]]:
    scene = recorded_scene()
    router = endpoint_of(scene).router
    return [(route.method, route.pattern) for route in router.routes]


def test_the_readme_says_how_many_routes_are_implemented() -> None:
    routes = [route for route in endpoint_of(recorded_scene()).router.routes if route.pattern not in OURS]
    refused = [route for route in routes if route.handler.__module__.endswith(".unsupported_routes")]
    told = re.search(r"(\d+) routes of its", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert told is not None
    assert int(told[1]) == len(routes) - len(refused) < len(routes)


def test_every_path_has_a_role_and_there_is_none_of_a_path_that_is_gone() -> None:
    routes = endpoint_of(recorded_scene()).application().router.routes()
    served = {(route.method, route.resource.canonical) for route in routes if route.resource is not None}
    everything, is_open = "/{path}", {re.sub(r":[^}]+", "", path) for path in OPEN_PATHS}
    of_page = {(method, path) for method, path in served if path not in {everything, *is_open} and method != "HEAD"}
    assert {*route_keys(), *of_page} == set(REST_ROLES)


@pytest.mark.parametrize(("method", "pattern"), route_keys())
async def test_no_failure_that_was_not_meant(method: str, pattern: str) -> None:
    for scene in (recorded_scene(), Scene(running_job())):
        async with serving(scene) as client:
            for path, query, body in itertools.product(paths(pattern), ("", QUERY), (None, b"{}", b'{"a": [1]}')):
                answer = await client.request(method, f"{path}?{query}", data=body, allow_redirects=False)
                if answer.content_type == "application/json":
                    check(answer.status, await answer.json(), f"{method} {path}?{query}")
                else:
                    assert (answer.status, answer.content_type) == (200, "text/plain")


def paths(pattern: str) -> list[str]:
    """All parameters good, and each of them odd in turn."""
    names = re.findall(r":(\w+)", pattern)
    good = {name: GOOD.get(name, hex_id("trigger")) for name in names}
    choices = [good, *({**good, name: odd} for name in names for odd in ODD)]
    return [filled(pattern, choice) for choice in choices]


def filled(pattern: str, values: dict[str, str]) -> str:
    return re.sub(r":(\w+)", lambda found: values[found[1]], pattern)


def check(status: int, body: Any, what: str) -> None:
    if status < 300:
        assert not (isinstance(body, dict) and "errors" in body), what
        return
    assert list(body) == ["errors"], what
    assert all(isinstance(error, str) for error in body["errors"]), what
    if status == 500:
        assert len(body["errors"]) == 2, what
        assert body["errors"][1].startswith(MEANT), (what, body)
