"""Waits that can be cancelled are bounded by `asyncio.timeout`: `asyncio.wait_for` of Python 3.11 forgets that it was cancelled when what it waits for is
there at the same time, and its task goes on."""

from __future__ import annotations

import ast

from tests.architecture.source import name_of, python_files, tree_of

PRODUCT = ("tidegate/", "jobmanager/", "taskmanager/", "cli/")


def test_no_wait_forgets_that_it_was_cancelled() -> None:
    product = [path for path in python_files() if name_of(path).startswith(PRODUCT)]
    calls = [
        f"{name_of(path)}:{node.lineno}"
        for path in product
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and node.attr == "wait_for" and ast.unparse(node.value) == "asyncio"
    ]
    assert len(product) > 500
    assert calls == []
