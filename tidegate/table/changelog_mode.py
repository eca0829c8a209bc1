"""`ChangelogMode`: which kinds of rows a changelog has (PyFlink: ``pyflink.table.changelog_mode``)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ChangelogMode"]


@dataclass(frozen=True)
class ChangelogMode:
    """``changes``: ``append`` (inserts only), ``upsert`` (rows replace those with their key, deletions have the key) or ``all``."""

    changes: str

    @staticmethod
    def insert_only() -> ChangelogMode:
        """Inserts only."""
        return ChangelogMode("append")

    @staticmethod
    def upsert() -> ChangelogMode:
        """Changes by a key, without the rows before an update."""
        return ChangelogMode("upsert")

    @staticmethod
    def all() -> ChangelogMode:
        """All kinds of rows."""
        return ChangelogMode("all")
