"""What the site makes of pages and docstrings before Sphinx reads them, and of its versions."""

from __future__ import annotations

from pathlib import Path

from docutils.core import publish_doctree

from docs._sphinx.docstrings import to_rst
from docs._sphinx.structure import pages_listed, without_links_to_sources
from docs._sphinx.versions import versions_in, write_versions

DOCSTRING = """Adds `n` to what ``*args`` hold, or a|b to name_::

    source ─▶ sink
        indented *more*

Then a list:
- one, with `code`s
  that goes on
- two
| a | b |
|---|---|
Words again, up to self._private and 2 * 3 * 4.
"""


def test_a_docstring_of_plain_text_is_what_it_says() -> None:
    text = "\n".join(to_rst(DOCSTRING.splitlines()))
    tree = publish_doctree(text, settings_overrides={"halt_level": 2, "report_level": 2})
    kinds = [node.tagname for node in tree.children]
    assert kinds == ["paragraph", "literal_block", "paragraph", "bullet_list", "literal_block", "paragraph"]
    assert tree.children[0].astext() == "Adds n to what *args hold, or a|b to name_:"
    assert tree.children[1].astext() == "source ─▶ sink\n    indented *more*"
    assert [item.astext() for item in tree.children[3].children] == ["one, with codes\nthat goes on", "two"]
    assert tree.children[5].astext() == "Words again, up to self._private and 2 * 3 * 4."


def test_a_section_has_the_pages_that_it_lists_in_that_order() -> None:
    text = (
        "[b](b.md), [a](a.md#part), [again](b.md), [elsewhere](../concepts/README.md), [out](https://example.org/c.md)"
    )
    assert pages_listed("guide/README", text) == ["guide/b", "guide/a"]


def test_a_page_outside_of_sections_belongs_to_the_first_that_lists_it() -> None:
    text = "[state](../state-format.md), [how](../architecture.md), [decisions](../adr/README.md)"
    assert pages_listed("internals/README", text) == ["architecture", "adr/README"]
    assert pages_listed("reference/README", text) == ["state-format"]


def test_a_link_to_a_source_file_keeps_its_words() -> None:
    told = without_links_to_sources(
        "guide/state", "see [the job](../../examples/flights.py) and [words](../glossary.md)"
    )
    assert told == "see the job (`examples/flights.py` in the repository) and [words](../glossary.md)"


def test_versions_are_told_newest_first(tmp_path: Path) -> None:
    for name in ("0.2.0", "0.10.0", "0.9.1", "_static"):
        (tmp_path / name).mkdir()
    assert versions_in(tmp_path) == ["0.10.0", "0.9.1", "0.2.0"]
    write_versions(tmp_path)
    assert 'url=0.10.0/index.html"' in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "versions.js").read_text() == 'window.tidegateVersions = ["0.10.0", "0.9.1", "0.2.0"];\n'
