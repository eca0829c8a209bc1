"""What msgspec raises for bytes that are no message."""

from __future__ import annotations

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""With ``RecursionError`` for what is nested too deeply, also where the value of a field is passed over."""
