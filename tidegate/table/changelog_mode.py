"""`ChangelogMode`: which kinds of rows a changelog has (PyFlink: ``pyflink.table.changelog_mode``)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ChangelogMode"]


@dataclass(frozen=True)
class ChangelogMode:
    """A changelog mode: ``append`` (inserts only), ``upsert`` (rows replace those with their key, deletions have the key) or ``all``."""

    changes: str

    @staticmethod
    def insert_only() -> ChangelogMode:
        """Returns the mode of inserts only."""
        return ChangelogMode("append")

    @staticmethod
    def upsert() -> ChangelogMode:
        """Returns the mode of upserts and deletions by key, without -U rows."""
        return ChangelogMode("upsert")

    @staticmethod
    def all() -> ChangelogMode:
        """Returns the mode of all row kinds."""
        return ChangelogMode("all")
