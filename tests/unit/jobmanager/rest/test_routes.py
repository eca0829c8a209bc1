"""Paths to handlers."""

from __future__ import annotations

import pytest

from tidegate.jobmanager.rest.http.errors import RestError
from tidegate.jobmanager.rest.routes import Router, reads, writes


def router() -> Router:
    patterns = ("/jobs", "/jobs/overview", "/jobs/:jobid", "/jobs/:jobid/config", "/:any/status")
    return Router(
        [*(reads(pattern, lambda _: None) for pattern in patterns), writes("PATCH", "/jobs/:jobid", lambda _: 0)]
    )


@pytest.mark.parametrize(
    ("path", "pattern", "parameters"),
    [
        ("/jobs", "/jobs", {}),
        ("/v1/jobs/", "/jobs", {}),
        ("//jobs//", "/jobs", {}),
        ("/v1//jobs", "/jobs", {}),
        ("/jobs/overview", "/jobs/overview", {}),
        ("/v1/jobs/a%2Fb", "/jobs/:jobid", {"jobid": "a/b"}),
        ("/jobs/overview/config", "/jobs/:jobid/config", {"jobid": "overview"}),
        ("/jobs/status", "/jobs/:jobid", {"jobid": "status"}),
        ("/x/status", "/:any/status", {"any": "x"}),
    ],
)
def test_a_fixed_segment_comes_first(path: str, pattern: str, parameters: dict[str, str]) -> None:
    route, found = router().find("GET", path)
    assert (route.pattern, found) == (pattern, parameters)


@pytest.mark.parametrize("path", ["/", "", "//", "/v1", "/v1/v1/jobs", "/jobs/a/b/c", "/" * 5_000])
def test_unknown_paths(path: str) -> None:
    with pytest.raises(RestError) as refused:
        router().find("GET", path)
    assert (refused.value.status, refused.value.messages[0][:27]) == (404, "Unable to load requested fi")


def test_a_known_path_with_another_verb() -> None:
    with pytest.raises(RestError, match="Not found: /v1/jobs/overview"):
        router().find("POST", "/v1/jobs/overview")
    assert router().find("PATCH", "/jobs/x")[0].changes
