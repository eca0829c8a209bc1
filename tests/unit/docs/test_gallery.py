"""The page of the gallery shows what the programs are: its code stands in their files, word by word, and each has its section and picture."""

from __future__ import annotations

import re

from tests.architecture.source import ROOT

PAGE = ROOT / "docs" / "gallery" / "README.md"
PROGRAMS = {path.stem: path for path in (ROOT / "examples" / "gallery").glob("*.py")}
MOST_BYTES = 120_000
"""Of a picture: a page of ten loads soon, and the repository stays small."""


def sections() -> dict[str, str]:
    """The text of each section that names a program in a command, by the program."""
    found: dict[str, str] = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        for name in re.findall(r"^\$ python examples/gallery/(\w+)\.py", section, re.MULTILINE):
            found[name] = section
    return found


def test_each_program_has_a_section() -> None:
    assert len(PROGRAMS) == 10
    assert sections().keys() == PROGRAMS.keys()


def test_the_code_of_a_section_stands_in_its_program() -> None:
    for name, section in sections().items():
        program = PROGRAMS[name].read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        assert blocks, f"no code of {name}"
        assert [block for block in blocks if block not in program] == []


def test_each_section_has_a_picture_that_is_small() -> None:
    for name, section in sections().items():
        assert f"](../images/gallery/{name}.png)" in section
        assert (ROOT / "docs" / "images" / "gallery" / f"{name}.png").stat().st_size < MOST_BYTES
