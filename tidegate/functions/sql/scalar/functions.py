"""Imports all modules of scalar functions, which fills the registry."""

from __future__ import annotations

from tidegate.functions.sql.scalar import (
    arithmetic,
    casts,
    json_functions,
    logic,
    nested,
    patterns,
    strings,
    times,
)
from tidegate.functions.sql.scalar.registry import FUNCTIONS

__all__ = ["FUNCTIONS", "arithmetic", "casts", "json_functions", "logic", "nested", "patterns", "strings", "times"]
