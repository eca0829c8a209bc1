"""Reading a pickle runs what its writer wants. Each file that does is in the list of docs/internals/pickles.md, with its process and who can write it;
the JobManager has none."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, name_of, python_files, tree_of

LIST = ROOT / "docs" / "internals" / "pickles.md"
PRODUCT = ("tidegate/", "jobmanager/", "taskmanager/", "cli/")
_MODULES = ("_pickle", "cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve")
_READERS = {*(f"{module}.{name}" for module in _MODULES for name in ("load", "loads", "open", "Unpickler"))}
_READERS |= {"tidegate.records.pickling.loads", "pandas.read_pickle"}
_ROW = re.compile(r"^\| `([^`]+\.py)` \|(?:[^|]+\|){3}$", re.MULTILINE)


def test_every_file_that_reads_pickles_is_in_the_list() -> None:
    found = {
        name_of(path) for path in python_files() if name_of(path).startswith(PRODUCT) and readers_in(tree_of(path))
    }
    listed = _ROW.findall(LIST.read_text(encoding="utf-8"))
    assert len(listed) == len(set(listed))
    assert found == set(listed)
    assert len(found) > 10


def test_the_jobmanager_reads_none() -> None:
    of_jobmanager = [path for path in python_files() if name_of(path).startswith("jobmanager/")]
    assert len(of_jobmanager) > 100
    assert [name_of(path) for path in of_jobmanager if readers_in(tree_of(path)) or _imports(path, _MODULES)] == []


@pytest.mark.parametrize(
    ("source", "readers"),
    [
        ("import pickle\npickle.loads(x)", {"pickle.loads"}),
        ("import pickle as p\nclass A(p.Unpickler): ...", {"pickle.Unpickler"}),
        ("from cloudpickle import loads as read\nread(x)", {"cloudpickle.loads"}),
        ("from tidegate.records.pickling import dumps, loads", {"tidegate.records.pickling.loads"}),
        ("import tidegate.records.pickling\ntidegate.records.pickling.loads(x)", {"tidegate.records.pickling.loads"}),
        ("import numpy as np\nnp.load(x, allow_pickle=True)", {"allow_pickle"}),
        ("import json, pickle\njson.loads(x); pickle.dumps(x)", set()),
    ],
)
def test_readers_are_found_however_they_are_imported(source: str, readers: set[str]) -> None:
    assert readers_in(ast.parse(source)) == readers


def readers_in(tree: ast.Module) -> set[str]:
    """What of a module reads pickles, by its full name."""
    names: dict[str, str] = {}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update({alias.asname or alias.name: alias.name for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} & _READERS
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of = ast.unparse(node.value)
            found |= {f"{names.get(of, of)}.{node.attr}"} & _READERS
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            found.add("allow_pickle")
    return found


def _imports(path: Path, modules: tuple[str, ...]) -> bool:
    nodes = list(ast.walk(tree_of(path)))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return any(name.partition(".")[0] in modules for name in imported)
