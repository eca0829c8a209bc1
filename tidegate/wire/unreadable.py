"""The errors that msgspec raises for invalid bytes."""

from __future__ import annotations

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Includes ``RecursionError`` for values that are nested too deeply, also in fields that are skipped."""
