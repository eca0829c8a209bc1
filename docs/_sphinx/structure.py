"""Which page belongs where on the site, taken from the pages themselves.

Pages stay plain Markdown, so that they read well in a repository. Each section has one page that lists the others, and that list
is the order of the site: here it becomes Sphinx's table of contents, which no reader of the repository has to look at. A page
that its section does not list is in no table of contents, and Sphinx refuses to build.

    index.md ─▶ tutorial/README.md, concepts/README.md, ... ─▶ the pages that each of them lists
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent.parent
FOLDERS_OF_THEIR_OWN = ("tutorial", "gallery", "concepts", "guide", "reference", "internals", "adr")
"""A page in one of them belongs to the section of its folder; the others belong to the section that lists them first."""
_LINK = re.compile(r"\]\((?P<target>[^)#\s:]+\.md)(?:#[^)\s]*)?\)")
_MODULE = re.compile(r"^\| `(tidegate[a-z_.]*)` \|", re.MULTILINE)
_DIAGRAM = re.compile(r"^```mermaid\n.*?^```\n?", re.MULTILINE | re.DOTALL)
_ARROW = re.compile(r"^ +(\S+) --> (\S+)(?: : (.*))?$", re.MULTILINE)
_OUTSIDE = re.compile(r"\[(?P<words>[^\]]+)\]\((?P<target>\.\./[^)#\s]+)(?:#[^)\s]*)?\)")


def pages_listed(docname: str, text: str) -> list[str]:
    """The pages that come below a section's page, as document names, in the order of its links."""
    here = PurePosixPath(docname).parent
    listed: list[str] = []
    for link in _LINK.finditer(text):
        found = _normal(here / link["target"]).removesuffix(".md")
        if found not in listed and found != docname and _belongs_to(found, docname):
            listed.append(found)
    return listed


def _belongs_to(page: str, section: str) -> bool:
    folder = PurePosixPath(page).parts[0]
    if section == "index":
        return page.endswith("/README") and folder != "adr"
    if section == "adr/README":
        return folder == "adr"
    own = PurePosixPath(section).parts[0]
    if folder in FOLDERS_OF_THEIR_OWN:
        return folder == own or (page, own) == ("adr/README", "internals")
    return own == _section_of_loose_pages().get(page)


def _section_of_loose_pages() -> dict[str, str]:
    """Pages directly in `docs/`: page -> the folder whose README lists it first."""
    sections: dict[str, str] = {}
    for folder in ("concepts", "reference", "internals"):
        readme = DOCS / folder / "README.md"
        for link in _LINK.finditer(readme.read_text(encoding="utf-8")):
            page = _normal(PurePosixPath(folder) / link["target"]).removesuffix(".md")
            if "/" not in page:
                sections.setdefault(page, folder)
    return sections


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def without_links_to_sources(docname: str, text: str) -> str:
    """Links to files of the repository that are no pages keep their words: the site does not hold those files."""
    here = PurePosixPath(docname).parent

    def replaced(link: re.Match[str]) -> str:
        target = _normal(here / link["target"])
        if not target.startswith(".."):
            return link[0]
        words = link["words"]
        name = target.removeprefix("../")
        return words if name in words else f"{words} (`{name}` in the repository)"

    return _OUTSIDE.sub(replaced, text)


def with_links_to_modules(text: str) -> str:
    """The list of public modules, which is plain in the repository, leads to the pages that only the site has."""
    modules = _MODULE.findall(text)
    entries = "\n".join(f"{module.removeprefix('tidegate.')} </reference/api/{module}>" for module in modules)
    linked = _MODULE.sub(r"| [`\1`](api/\1.rst) |", text)
    return f"{linked}\n\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"


def with_tables_for_diagrams(text: str) -> str:
    """Diagrams of states are drawn by a repository's page; the site, which loads nothing from elsewhere, has them as tables."""

    def table(diagram: re.Match[str]) -> str:
        rows = [
            f"| {before} | {after} | {' · '.join((events or '').split('<br>'))} |"
            for before, after, events in _ARROW.findall(diagram[0])
            if "[*]" not in (before, after)
        ]
        return "\n".join(["| from | to | on |", "|---|---|---|", *rows, ""])

    return _DIAGRAM.sub(table, text)


def on_source_read(_app: Sphinx, docname: str, content: list[str]) -> None:
    """Sphinx's hook: the text of a page, before it is parsed."""
    text = with_tables_for_diagrams(without_links_to_sources(docname, content[0]))
    if docname == "reference/python":
        text = with_links_to_modules(text)
    if docname == "index" or docname.endswith("/README"):
        listed = pages_listed(docname, text)
        entries = "\n".join(f"/{page}" for page in listed)
        text += f"\n\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
    content[0] = text


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", on_source_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
