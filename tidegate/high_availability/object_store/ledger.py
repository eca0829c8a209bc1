"""The content of a cluster's one object: who leads, in which term, and the entries of its jobs.

Everything is in one object because a bucket has no transactions: a compare-and-swap of this object changes an entry and checks the lead at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

LEADER = "leader/dispatcher/connection_info"
"""The entry with the leader's address; its name is that of ZooKeeper's node."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger. ``holder``: the name of the process that leads, empty after it has resigned. ``revision``: grows with each swap, so that neither a
    content nor a version of the object (often a checksum of its content) occurs twice."""

    term: int
    revision: int
    holder: str
    lease_ms: int
    entries: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def mark(self) -> tuple[int, int, str]:
        """A value that differs after each swap: while it changes, the leader lives."""
        return (self.term, self.revision, self.holder)


@dataclass(frozen=True, slots=True)
class Create:
    """Creates an entry; an existing one with another value stays."""

    name: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Put:
    """Writes an entry, whether it exists or not."""

    name: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes an entry with all entries below it."""

    name: str


Change = Create | Put | Delete


def claimed(found: Ledger | None, holder: str, term: int, lease_ms: int) -> Ledger:
    """Returns the ledger that a new leader writes: with the entries, without the leader's address."""
    if found is None:
        return Ledger(term, 1, holder, lease_ms)
    entries = {name: value for name, value in found.entries.items() if name != LEADER}
    return Ledger(term, found.revision + 1, holder, lease_ms, entries)


def renewed(ledger: Ledger, entries: Mapping[str, bytes] | None = None) -> Ledger:
    """Returns the ledger with the next revision in the same term."""
    return replace(ledger, revision=ledger.revision + 1, entries=ledger.entries if entries is None else entries)


def released(ledger: Ledger) -> Ledger:
    """Returns the ledger without a leader, so that the next one need not wait for the end of the lease."""
    entries = {name: value for name, value in ledger.entries.items() if name != LEADER}
    return replace(renewed(ledger, entries), holder="")


def change(entries: dict[str, bytes], request: Change) -> bool:
    """Applies a change to the entries in place. Returns whether they are as it asked for. Repeating it is harmless."""
    match request:
        case Create():
            return entries.setdefault(request.name, request.value) == request.value
        case Put():
            entries[request.name] = request.value
        case Delete():
            for name in [name for name in entries if name == request.name or name.startswith(f"{request.name}/")]:
                del entries[name]
    return True


def names_below(entries: Mapping[str, bytes], folder: str) -> list[str]:
    """Returns the sorted names of the entries and folders in a folder."""
    below = [name[len(folder) + 1 :] for name in entries if name.startswith(f"{folder}/")]
    return sorted({name.partition("/")[0] for name in below})
