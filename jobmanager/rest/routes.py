"""Finds the handler of a path by Flink's patterns; a fixed segment is preferred to a parameter.

    /jobs/:jobid/vertices/:vertexid      with and without /v1 in front; empty segments count for nothing

A known path with another verb is 404 "Not found", as in Flink, which never says 405; an unknown one is 404 as for a file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias
from urllib.parse import unquote

from tidegate.jobmanager.rest.http.errors import RestError, not_found
from tidegate.jobmanager.rest.http.request import RestRequest
from tidegate.model.values import Json

Answer: TypeAlias = "Json | Reply | Awaitable[Json | Reply]"
"""The result of a handler: a value to send as JSON with the status of the route, a ``Reply``, or an awaitable of either."""

Handler = Callable[[RestRequest], Answer]
MAX_PATH = 4_096
"""The longest path that is looked up. No route of Flink's comes near it; it bounds what a request makes us unquote."""


class Kept(Enum):
    """How long an answer may be cached (Flink: ``ExecutionGraphCache``, ``CheckpointStatsCache``)."""

    NOT = "not"
    GRAPH = "graph"
    CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is plain text, not JSON."""

    body: bytes
    status: int = 200


@dataclass(frozen=True, slots=True)
class Route:
    """A method and path pattern with its handler.

    ``changes``: it changes something, so it is refused to foreign pages. ``uploads``: its body is a file; ``drains``: its
    body may be large, and is not read.
    """

    method: str
    pattern: str
    handler: Handler
    status: int = 200
    kept: Kept = Kept.NOT
    changes: bool = False
    uploads: bool = False
    drains: bool = False
    is_text: bool = False


def reads(pattern: str, handler: Handler, kept: Kept = Kept.NOT) -> Route:
    return Route("GET", pattern, handler, kept=kept)


def reads_text(pattern: str, handler: Handler) -> Route:
    """Creates a route for GET requests that are answered with plain text (a ``Reply``) and not with JSON, such as log files."""
    return Route("GET", pattern, handler, is_text=True)


def writes(method: str, pattern: str, handler: Handler, status: int = 202) -> Route:
    return Route(method, pattern, handler, status, changes=True)


@dataclass(slots=True)
class _Node:
    fixed: dict[str, _Node] = field(default_factory=dict)
    parameter: _Node | None = None
    routes: dict[str, tuple[Route, tuple[str, ...]]] = field(default_factory=dict)


class Router:
    """Finds the route of a request by its method and path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        self.routes = tuple(routes)
        for route in self.routes:
            self._add(route)

    def find(self, method: str, raw_path: str) -> tuple[Route, dict[str, str]]:
        """Finds the route of a raw, still quoted path, and its parameters. Raises ``RestError``."""
        segments = [unquote(part) for part in plain_path(raw_path).split("/")[1:]]
        found = _walk(self._root, segments, ()) if len(raw_path) <= MAX_PATH else None
        if found is None:
            raise self._unknown(method, raw_path)
        node, values = found
        if method not in node.routes:
            raise not_found(f"Not found: {unquote(raw_path)}")
        route, names = node.routes[method]
        return route, dict(zip(names, values, strict=True))

    def _add(self, route: Route) -> None:
        node, names = self._root, []
        for segment in route.pattern.split("/")[1:]:
            if segment.startswith(":"):
                names.append(segment[1:])
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.fixed.setdefault(segment, _Node())
        assert route.method not in node.routes, f"two routes for {route.method} {route.pattern}"
        node.routes[route.method] = (route, tuple(names))

    @staticmethod
    def _unknown(method: str, raw_path: str) -> RestError:
        path = unquote(raw_path[:MAX_PATH])
        return not_found(f"Unable to load requested file {path}." if method == "GET" else f"Not found: {path}")


def plain_path(raw_path: str) -> str:
    """Removes ``/v1`` and empty segments from a path."""
    path = raw_path.removeprefix("/v1") if raw_path.startswith("/v1/") else raw_path
    return "/" + "/".join(filter(None, path.split("/"))) if "//" in path or path.endswith("/") else path


def _walk(node: _Node, segments: list[str], values: tuple[str, ...]) -> tuple[_Node, tuple[str, ...]] | None:
    if not segments:
        return (node, values) if node.routes else None
    first, rest = segments[0], segments[1:]
    if first in node.fixed:
        found = _walk(node.fixed[first], rest, values)
        if found is not None:
            return found
    if node.parameter is not None and first:
        return _walk(node.parameter, rest, (*values, first))
    return None
