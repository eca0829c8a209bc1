"""What is generated is what its source says, and every option is in the reference."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.architecture.source import ROOT
from tidegate.model.options import declared


@pytest.mark.parametrize("tool", ["proto/generate.py", "docs/generate.py"])
def test_generated_files_are_fresh(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, tool, "--check"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr


def test_every_option_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert [key for key in declared() if f"| `{key}` |" not in page] == []
