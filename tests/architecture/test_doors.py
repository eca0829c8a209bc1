"""Every port of gRPC or HTTP asks who comes in, where a cluster has users."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.architecture.source import name_of, python_files, tree_of

PRODUCT = ("tidegate/", "jobmanager/", "taskmanager/", "cli/")
ASKS_NOBODY = {
    "jobmanager/service/high_availability/standby.py": "passes HTTP on to the leader, which asks; answers gRPC with the leader's address",
}


def test_every_server_of_grpc_looks_at_its_calls() -> None:
    found = dict(_calls(lambda function: isinstance(function, ast.Name) and function.id == "start_server"))
    without = {name for name, call in found.items() if not _has_checks(call)}
    assert {name.partition(":")[0] for name in without} == set(ASKS_NOBODY)
    assert len(found) >= 5


def test_every_server_of_http_knows_who_may_come_in() -> None:
    found = dict(_calls(lambda function: isinstance(function, ast.Attribute) and function.attr == "Application"))
    files = {name.partition(":")[0] for name in found}
    asking = {name_of(path) for path in _files() if {"Admission", "RestAdmission"} & _imported(path)}
    assert files - asking == set(ASKS_NOBODY)
    assert len(files) >= 4


def _files() -> list[Path]:
    return [path for path in python_files() if name_of(path).startswith(PRODUCT)]


def _calls(is_wanted: Callable[[ast.expr], bool]) -> Iterator[tuple[str, ast.Call]]:
    """Calls of a function, by the place at which they are."""
    for path in _files():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and is_wanted(node.func):
                yield f"{name_of(path)}:{node.lineno}", node


def _has_checks(call: ast.Call) -> bool:
    """Whether interceptors are given, by name or as the last of the arguments (``*rest.secured``)."""
    return any(keyword.arg == "interceptors" for keyword in call.keywords) or any(
        isinstance(argument, ast.Starred) for argument in call.args
    )


def _imported(path: Path) -> set[str]:
    return {alias.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ImportFrom) for alias in node.names}
