"""A directory whose path is short: a Unix socket's may have 108 bytes, and pytest's own grow with the number of its run."""

from __future__ import annotations

import shutil
import tempfile
import weakref


def short_directory(owner: object) -> str:
    """It goes when ``owner`` does."""
    path = tempfile.mkdtemp(prefix="tidegate-", dir="/tmp")
    weakref.finalize(owner, shutil.rmtree, path, ignore_errors=True)
    return path
