"""A schema-driven fuzzer over our own description: no failure that was not meant, no hang, errors in Flink's shape.

The same requests in every run: nothing is random, and how long an answer takes is bounded only against a hang.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from aiohttp import web
from hypothesis import HealthCheck, Phase, given, settings

from tests.contract.rest.asking import endpoint_of
from tests.contract.rest.scene import recorded_scene
from tests.contract.rest.test_every_route import GOOD, check
from tidegate.jobmanager.rest.openapi import BODIES, QUERIES, document

HANGS_S = 60
EXAMPLES = 12
ENDPOINT = endpoint_of(recorded_scene())
DOCUMENT = document(ENDPOINT.router.routes)
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
FOUND: list[Any] = [result.ok() for result in SCHEMA.get_all_operations()]  # type: ignore[union-attr]
OPERATIONS = {operation.label: operation for operation in FOUND}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The endpoint on a loop of its own: the fuzzer blocks."""
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(ENDPOINT.application())

    async def start() -> str:
        await runner.setup()
        await web.TCPSite(runner, "localhost", 0).start()
        return f"http://localhost:{runner.addresses[0][1]}"

    found = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, name="endpoint")
    thread.start()
    yield found
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(HANGS_S)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


@pytest.mark.parametrize("label", list(OPERATIONS))
def test_no_failure_that_was_not_meant(label: str, address: str, session: requests.Session) -> None:
    operation = OPERATIONS[label]

    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def asked(case: Any) -> None:
        for names in ({}, GOOD):  # as generated, and with ids that exist
            case.path_parameters.update({name: GOOD[name] for name in names if name in case.path_parameters})
            request = case.as_transport_kwargs(base_url=address)
            answer = session.request(**request, timeout=HANGS_S, allow_redirects=False)
            if answer.headers["content-type"].startswith("application/json"):
                check(answer.status_code, answer.json(), f"{label} {request}")
            else:
                assert answer.status_code == 200, f"{label} {request}"

    asked()


def test_what_is_described_is_there() -> None:
    patterns = {route.pattern for route in ENDPOINT.router.routes}
    keys = {(route.method, route.pattern) for route in ENDPOINT.router.routes}
    assert set(QUERIES) <= patterns
    assert set(BODIES) <= keys
    assert len(OPERATIONS) == len(keys)


def test_it_is_served(address: str) -> None:
    for prefix in ("", "/v1"):
        answer = requests.get(f"{address}{prefix}/openapi.json", timeout=HANGS_S)
        assert answer.json() == DOCUMENT
