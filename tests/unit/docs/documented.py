"""The code blocks of docs/state-format.md."""

from __future__ import annotations

import re

from tests.architecture.source import ROOT

PAGE = (ROOT / "docs" / "state-format.md").read_text(encoding="utf-8")


def code_of(name: str) -> str:
    (found,) = re.findall(rf"^```python {name}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)
