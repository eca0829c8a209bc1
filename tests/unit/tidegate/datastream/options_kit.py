"""The options of an operator, as tests compare them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tidegate.model.program import OperatorSpec


def given(spec: OperatorSpec) -> dict[str, Any]:
    """By name, those that differ from their defaults."""
    values = {found.name: (getattr(spec.options, found.name), found.default) for found in fields(spec.options)}
    return {name: value for name, (value, default) in values.items() if value is not default}
