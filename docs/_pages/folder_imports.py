"""The imports between the folders of the product, read from the code, and a drawing of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LINKED = ("jobmanager", "taskmanager", "cli")
"""Folders of the repository that ``tidegate`` has links to."""

Graph = Mapping[str, Set[str]]


@cache
def modules() -> dict[str, Path]:
    """Returns the file of each module of the product, packages included."""
    found = {}
    for top in ("tidegate", *LINKED):
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[:2] in {("tidegate", linked) for linked in LINKED}:
                continue  # by way of the link
            name = ".".join(parts if top == "tidegate" else ("tidegate", *parts))
            found[name.removesuffix(".__init__")] = path
    return found


@cache
def imports() -> Graph:
    """Returns what each module imports: at its top, within a function, and for type checkers."""
    return {name: frozenset(_imported(path)) - {name} for name, path in modules().items()}


def folders(graph: Graph, container: str) -> dict[str, set[str]]:
    """Returns the imports between the packages and modules directly below ``container``, by their names there."""
    found: dict[str, set[str]] = {}
    for module, imported in graph.items():
        folder = _folder(module, container)
        if folder:
            others = {_folder(other, container) for other in imported} - {folder, ""}
            found.setdefault(folder, set()).update(others)
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Returns the groups of names that reach each other (strongly connected, by Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in graph.get(name, ()):
            if other not in order:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == order[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in order:
            visit(name)
    return sorted(found)


def drawing(graph: Graph) -> Iterator[str]:
    """Yields a line for each folder, those that nobody below imports first, with arrows to the folders that it imports."""
    left = {name: set(others) for name, others in graph.items()}
    lines: list[str] = []
    width = max(map(len, left))
    while left:
        lowest = sorted(name for name, others in left.items() if not others & left.keys())
        if not lowest:
            raise ValueError(f"imports go in a circle: {circles(left)}")
        for name in reversed(lowest):
            others = " ".join(sorted(graph[name]))
            lines.append(f"{name:{width}} ─▶ {others}" if others else name)
            del left[name]
    yield from reversed(lines)


def packages() -> Iterable[str]:
    """Returns every package of the product that has packages or modules below it."""
    return sorted({name.rpartition(".")[0] for name in modules() if "." in name})


def _folder(module: str, container: str) -> str:
    return module[len(container) + 1 :].partition(".")[0] if module.startswith(f"{container}.") else ""


def _imported(path: Path) -> Iterator[str]:
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield from {full if full in modules() else str(node.module)} & modules().keys()
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & modules().keys()
        else:
            waiting += [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.expr)]
