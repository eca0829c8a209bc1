"""The pages of the Python API: one for each public module, written before Sphinx reads its sources, from ``public_api``."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.util import logging

from docs._sphinx.docstrings import to_rst
from docs._sphinx.public_api import MODULES, described_in, homes, members_of, names_of, public_names, refusal_of

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_LOG = logging.getLogger(__name__)
FOLDER = Path("reference") / "api"


def write_pages(docs: Path) -> None:
    """All pages; what has not changed keeps its time, so that Sphinx does not read it again."""
    folder = docs / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"{module}.rst": "\n".join(_page(module)) + "\n" for module in MODULES}
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for old in folder.glob("*.rst"):
        if old.name not in pages:
            old.unlink()


def _page(module: str) -> Iterator[str]:
    yield module
    yield "=" * len(module)
    yield ""
    yield f".. automodule:: {module}"
    yield "   :no-members:"
    yield ""
    described = described_in(module)
    refusing = {name: text for name, home in described.items() if (text := refusal_of(home.value)) is not None}
    for name in _main_ones_first(module, [name for name in described if name not in refusing]):
        yield name  # a heading of its own: the list beside the page has names, without their methods
        yield "-" * len(name)
        yield ""
        yield from _directive(described[name].path, described[name].value)
    yield from _refusals(module, refusing)
    yield from _found_elsewhere(module)


def _main_ones_first(module: str, names: list[str]) -> list[str]:
    """What the module's docstring names first is what its readers look for; the others follow in their order."""
    words = inspect.getdoc(importlib.import_module(module)) or ""
    named = re.findall(r"`(\w+)`", words.split("\n\n", 1)[0])
    main = [name for name in dict.fromkeys(named) if name in names]
    return [*main, *(name for name in names if name not in main)]


def _directive(path: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f".. autoclass:: {path}"
        if value.__bases__ != (object,):
            yield "   :show-inheritance:"
        if members := [*_fields(value), *members_of(value)]:
            yield f"   :members: {', '.join(members)}"
            yield "   :undoc-members:"
    else:
        yield f".. autofunction:: {path}"
    yield ""


def _fields(kind: type) -> list[str]:
    """Values of an enumeration, fields of a dataclass: what is shown beside methods."""
    if issubclass(kind, enum.Enum):
        return list(kind.__members__)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")]
    return []


def _refusals(module: str, refusing: dict[str, str]) -> Iterator[str]:
    if not refusing:
        return
    yield "Names that refuse"
    yield "-----------------"
    yield ""
    yield "They can be imported, so that a module which names them loads. Using one raises ``TypeError``:"
    yield ""
    for name, text in refusing.items():
        yield f".. py:class:: {name}"
        yield f"   :module: {module}"
        yield ""
        yield "   " + " ".join(to_rst([text])).strip()
        yield ""


def _found_elsewhere(module: str) -> Iterator[str]:
    """Names that can be imported from here, and are described on another page."""
    others = {name: home for name, value in names_of(module).items() if (home := homes().get(id(value))) is not None}
    others = {name: home for name, home in others.items() if home.page != module}
    if not others:
        return
    yield "Also found here"
    yield "---------------"
    yield ""
    for name, home in others.items():
        yield f"- :py:obj:`{name} <{home.path}>`"
    yield ""


def on_builder_inited(app: Sphinx) -> None:
    """Sphinx's hook: before it looks for sources."""
    write_pages(Path(app.srcdir))


def on_docstring(_app: Sphinx, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """autodoc's hook: the lines of one docstring, changed in place."""
    lines[:] = to_rst(lines)


def on_check_consistency(_app: Sphinx, environment: BuildEnvironment) -> None:
    """Sphinx's hook, when all pages were read: every public name stands on one."""
    described = environment.domains.python_domain.objects
    for name in public_names():
        if name.path not in described:
            _LOG.warning("%s is public and stands on no page", name.path, type="tidegate", subtype="coverage")


def on_missing_reference(
    app: Sphinx, _environment: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.Node | None:
    """Sphinx's hook: a type that an annotation names as its own module calls it, or that is nobody's to describe here.

    Types of other packages have no page on a site that is read without a network; types of ours that are not public are words.
    """
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"])
    for path in _paths_of(target):
        found = app.env.domains.python_domain.resolve_xref(
            app.env, node["refdoc"], app.builder, "obj", path, node, content
        )
        if found is not None:
            return found
    return content


def _paths_of(target: str) -> list[str]:
    last = target.rsplit(".", 1)[-1]
    return [home.path for home in homes().values() if home.name == last] if re.fullmatch(r"[\w.]+", target) else []


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", on_builder_inited)
    app.connect("autodoc-process-docstring", on_docstring)
    app.connect("env-check-consistency", on_check_consistency)
    app.connect("missing-reference", on_missing_reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
