"""The guide of moving over shows what the examples are: its code stands in their files, word by word."""

from __future__ import annotations

import re

from tests.architecture.source import ROOT

GUIDE = ROOT / "docs" / "guide" / "moving_from_spark.md"
EXAMPLES = ROOT / "examples" / "from_spark"


def test_each_block_of_the_guide_stands_in_an_example() -> None:
    programs = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.py"))]
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 10
    strange = [block for block in blocks if not any(block in program for program in programs)]
    assert strange == []


def test_the_guide_names_each_example() -> None:
    named = set(re.findall(r"`(\w+\.py)`", GUIDE.read_text(encoding="utf-8")))
    assert named == {path.name for path in EXAMPLES.glob("*.py")}
