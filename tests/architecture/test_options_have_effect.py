"""An option that is declared as effective is read by something: otherwise a user would set it in vain, and unwarned."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tidegate.model import options
from tidegate.model.options import ConfigOption, Kind

ROOT = Path(__file__).resolve().parents[2]
DECLARATIONS = ROOT / "tidegate" / "model" / "options"


def _declared() -> list[tuple[str, ConfigOption[Any]]]:
    groups = [group for name, group in vars(options).items() if isinstance(group, type) and name.endswith("Options")]
    found = [
        (name, value) for group in groups for name, value in vars(group).items() if isinstance(value, ConfigOption)
    ]
    return [(name, option) for name, option in found if option.kind is Kind.EFFECTIVE]


def _code() -> str:
    folders = ("tidegate", "jobmanager", "taskmanager", "cli")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    skipped = (DECLARATIONS, ROOT / "tidegate" / "pb")
    return "\n".join(path.read_text() for path in files if not any(path.is_relative_to(place) for place in skipped))


CODE = _code()
NAMED = set(re.findall(r"(?:Options|\b[a-z_]+)\.([A-Z][A-Z0-9_]*)\b", CODE))


@pytest.mark.parametrize(("name", "option"), _declared(), ids=lambda value: getattr(value, "key", value))
def test_it_is_read(name: str, option: ConfigOption[Any]) -> None:
    assert name in NAMED or f'"{option.key}"' in CODE, (
        f"nobody reads {option.key}: wire it, or let the list of Flink's keys know it"
    )
