"""The configuration keys that Flink 2.3.0 knows, from ``flink_keys.txt``.

A key that is there and not declared in `tidegate.model.options` is accepted and has no effect.
"""

from __future__ import annotations

import pkgutil


def _sections() -> dict[str, list[str]]:
    """Returns the lines of the file by section; the package's loader reads it, as it reads the modules."""
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
"""Those of the autoscaler in Flink's Kubernetes operator."""

FLINK_KEYS = frozenset(_SECTIONS["keys"]) | AUTOSCALER_KEYS
"""Current names, those of the autoscaler among them."""

FLINK_PREFIXES = tuple(_SECTIONS["families"])
"""Families whose keys hold a name that the user chose, or belong to a plug-in of Flink."""

OLD_KEYS: dict[str, str] = dict(pair.split(" > ", 1) for pair in _SECTIONS["old names"])
"""Old names that Flink 2.3.0 still reads, with the key that replaced each."""
