"""The configuration keys that Flink 2.3.0 knows, from ``flink_keys.txt``.

A key that is there and not declared in `tidegate.model.options` is accepted and has no effect.
"""

from __future__ import annotations

import pkgutil


def _sections() -> dict[str, list[str]]:
    """Returns the lines of the file by section, read by the package's loader like a module."""
    data = pkgutil.get_data("tidegate.model.options", "flink_keys.txt")
    assert data is not None
    found: dict[str, list[str]] = {}
    for line in data.decode("utf-8").splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            section.append(line)
    return found


_SECTIONS = _sections()

AUTOSCALER_KEYS = frozenset(_SECTIONS["keys of the autoscaler"])
"""The keys of the autoscaler in Flink's Kubernetes operator."""

FLINK_KEYS = frozenset(_SECTIONS["keys"]) | AUTOSCALER_KEYS
"""All current names, including those of the autoscaler."""

FLINK_PREFIXES = tuple(_SECTIONS["families"])
"""Prefixes of keys that contain a name chosen by the user, or belong to a plug-in of Flink."""

OLD_KEYS: dict[str, str] = dict(pair.split(" > ", 1) for pair in _SECTIONS["old names"])
"""Old names that Flink 2.3.0 still reads, with their current keys."""
