"""Suggests the right module when an import of a missing module below ``tidegate.connectors`` fails.

Python asks the finders of ``sys.meta_path`` in turn; this one stands last, finds nothing, and is asked only about what no other has found.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

from tidegate.common.names.places import ROOTS, suggest_module

__all__ = ["say_which_is_meant"]


class _Missing:
    """An import finder that finds nothing and raises an error with a suggestion."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if fullname.startswith(tuple(f"{root}." for root in ROOTS)):
            raise ModuleNotFoundError(f"No module named {fullname!r}{suggest_module(fullname)}", name=fullname)


def say_which_is_meant() -> None:
    """Installs the finder in this process."""
    if _Missing not in sys.meta_path:
        sys.meta_path.append(_Missing)
