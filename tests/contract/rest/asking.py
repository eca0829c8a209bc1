"""Asking the REST endpoint of a scene."""

from __future__ import annotations

from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from tests.contract.rest.scene import Scene
from tidegate.aio.admission import Admission
from tidegate.jobmanager.rest.backend_services import BackendServices
from tidegate.jobmanager.service.rest_endpoint import RestEndpoint

Client = TestClient[Any, Any]


def endpoint_of(scene: Scene) -> RestEndpoint:
    """With users, where the settings of the scene name a file of them."""
    outside = BackendServices(
        scene.shut_down,
        scene.dispose,
        scene.inspector,
        scene.programs,
        history=None,
        faults=scene.faults,
        admission=Admission.of(scene.configuration),
    )
    return RestEndpoint(scene, outside, scene.now_ms)


def serving(scene: Scene) -> Client:
    endpoint = endpoint_of(scene)
    return TestClient(TestServer(endpoint.application()))


async def ask(client: Client, method: str, path: str, status: int, **options: Any) -> Any:
    answer = await client.request(method, path, **options)
    assert answer.status == status, await answer.text()
    body = await answer.json()
    if status >= 400 or status == 308:
        assert list(body) == ["errors"]
        assert all(isinstance(error, str) for error in body["errors"])
    return body


async def operation(client: Client, path: str, trigger: str) -> Any:
    for _ in range(100):
        body = await ask(client, "GET", f"{path}/{trigger}", 200)
        if body["status"]["id"] == "COMPLETED":
            return body["operation"]
    raise AssertionError(f"{path}/{trigger} goes on")
