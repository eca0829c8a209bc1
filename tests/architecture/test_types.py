"""Signatures say what they take: where the machines decide there is no `Any`, and each name for it says what it holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tidegate.model.values
from tests.architecture.source import name_of, python_files, tree_of

PRODUCT = ("tidegate/", "jobmanager/", "taskmanager/", "cli/")
EVENTS_AND_COMMANDS = (
    "jobmanager/machines/",
    "taskmanager/machines/",
    "taskmanager/runtime/mailbox.py",
    "tidegate/model/channel_events.py",
)


def test_events_commands_and_mails_have_types() -> None:
    open_names = {"Any", *_open_names(Path(tidegate.model.values.__file__))}
    found = {
        f"{name_of(path)}:{node.lineno}"
        for path in _product()
        if name_of(path).startswith(EVENTS_AND_COMMANDS)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Name) and node.id in open_names
    }
    assert found == set()


def test_a_name_for_values_of_any_type_says_what_they_are() -> None:
    silent = [
        f"{name_of(path)}:{name}" for path in _product() for name, words in _open_names(path).items() if not words
    ]
    assert silent == []
    assert _open_names(Path(tidegate.model.values.__file__))["Record"].startswith("A record of a stream")


def _product() -> Iterator[Path]:
    return (path for path in python_files() if name_of(path).startswith(PRODUCT))


def _open_names(path: Path) -> dict[str, str]:
    """Aliases of `Any` that the file defines, with the docstring behind each; empty where there is none."""
    body = tree_of(path).body
    return {
        node.target.id: _words(body[index + 1] if index + 1 < len(body) else None)
        for index, node in enumerate(body)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if isinstance(node.value, ast.Name) and node.value.id == "Any"
    }


def _words(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return ""
