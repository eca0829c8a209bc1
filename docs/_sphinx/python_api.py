"""The pages of the Python API."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    return {"parallel_read_safe": True, "parallel_write_safe": True}
