"""What the documents import can be imported: every `import` of ours in README, guides and examples."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator

from docs._sphinx.public_api import MODULES
from tests.architecture.source import ROOT, name_of

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_every_documented_import_works() -> None:
    named = {(place, module, name) for place, source in _sources() for module, name in _imports(source)}
    assert len({(module, name) for _, module, name in named}) > 60
    assert [f"{place}: {module}.{name}" for place, module, name in sorted(named) if not _is_there(module, name)] == []


def test_documents_import_what_the_reference_describes() -> None:
    """A reader who looks an import up finds it; runnable scripts of the repository may use more."""
    modules = {module for place, source in _sources() if place.endswith(".md") for module, _ in _imports(source)}
    assert sorted(modules - set(MODULES)) == []


def _sources() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            yield name_of(page), block
    for example in sorted((ROOT / "examples").glob("*.py")):
        yield name_of(example), example.read_text(encoding="utf-8")


def _imports(source: str) -> Iterator[tuple[str, str]]:
    """(module, name) of each import of ours; the name is empty where a module itself is imported."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a block that elides something
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "tidegate":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.partition(".")[0] == "tidegate")


def _is_there(module: str, name: str) -> bool:
    try:
        found = importlib.import_module(module)
        return not name or hasattr(found, name) or importlib.import_module(f"{module}.{name}") is not None
    except ImportError:
        return False
