"""Who may import whom, and what pure code may not even name."""

from __future__ import annotations

import ast
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, name_of, python_files, tree_of

PURE_FOLDERS = ("tidegate/model/", "jobmanager/machines/", "taskmanager/machines/")
IMPURE_CALLS = {"print", "open", "input", "exec", "eval", "breakpoint", "__import__"}
CLOCK_METHODS = {"now", "utcnow", "today", "monotonic", "perf_counter"}
COMPOSITION_ROOT_LINES = 100


def test_imports_keep_to_the_contracts() -> None:
    program = Path(sysconfig.get_path("scripts"), "lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_pure_rooms_call_no_clock_and_no_file() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in python_files()
        if name_of(path).startswith(PURE_FOLDERS)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and _is_impure(node.func)
    ]
    assert found == []


def _is_impure(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in IMPURE_CALLS
    return isinstance(function, ast.Attribute) and function.attr in CLOCK_METHODS


def test_pure_rooms_wait_for_nothing() -> None:
    waits = (ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith)
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in python_files()
        if name_of(path).startswith(PURE_FOLDERS)
        for node in ast.walk(tree_of(path))
        if isinstance(node, waits)
    ]
    assert found == []


@pytest.mark.parametrize("process", ["jobmanager", "taskmanager"])
def test_a_composition_root_only_constructs(process: str) -> None:
    root = ROOT / process / "service" / "app.py"
    lines = len(root.read_text(encoding="utf-8").splitlines()) if root.exists() else 0
    assert lines <= COMPOSITION_ROOT_LINES


def test_the_schemas_are_no_package() -> None:
    """`proto` is the import name of a widely used library; ours must not shadow it."""
    assert not list((ROOT / "proto").rglob("__init__.py"))


def test_every_room_says_what_it_is() -> None:
    folders = [path for path in python_files() if path.name == "__init__.py" and "tests" not in path.parts]
    assert folders
    assert [name_of(path) for path in folders if not ast.get_docstring(tree_of(path))] == []


def test_the_insides_of_kafka_python_are_known_to_two_files() -> None:
    """What may differ in its next minor version (docs/adr/0146)."""
    insides = ("kafka.net", "kafka.future", "kafka.protocol.parser", "kafka.protocol.frame")
    found = {
        name_of(path)
        for path in python_files()
        if name_of(path).startswith(("tidegate/", "jobmanager/", "taskmanager/", "cli/"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(insides)
    }
    columnar = "tidegate/connectors/kafka/columnar"
    assert found == {f"{columnar}/connection.py", f"{columnar}/frames.py"}
