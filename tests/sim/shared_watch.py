"""Checker of shared files: what a retained or pending checkpoint names is never deleted; at the end nothing is left that no
retained checkpoint names."""

from __future__ import annotations

from tests.sim.handles import shared_paths, shared_paths_of
from tests.sim.laws import Law, LawBroken
from tests.sim.storage import Storage
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.checkpoint import CheckpointManifest
from tidegate.model.options import ClaimMode


def check_complete(manifest: CheckpointManifest, storage: Storage) -> None:
    """When ``_metadata`` becomes durable."""
    if missing := shared_paths_of(manifest) - storage.shared.keys():
        raise LawBroken(Law.SHARED, f"checkpoint {manifest.checkpoint_id} names {sorted(missing)}, which is not there")


class SharedFilesWatch:
    def __init__(self, storage: Storage, restore: e.RestoreFrom | None) -> None:
        self._storage = storage
        self._restored = restore.location if restore else ""
        self._told: set[str] = set()
        """Named by acknowledgements that arrived, or claimed."""
        self._foreign: set[str] = set()
        self._ordered: set[str] = set()
        """Locations whose removal was ordered: they may be there still."""
        self._not_removed: set[str] = set()
        self._orders: dict[int, set[str]] = {}
        if restore is not None:
            is_claimed = restore.claim_mode is ClaimMode.CLAIM
            (self._told if is_claimed else self._foreign).update(shared_paths_of(restore.manifest))

    def on_event(self, event: e.Event) -> None:
        match event:
            case e.SubtaskAcknowledged():
                self._told |= shared_paths(event.snapshot.operators.values())
            case e.SharedFilesDiscarded():
                if event.error is not None:
                    self._not_removed |= self._orders[event.checkpoint_id]
            case _:
                pass

    def on_ordered(self, location: str) -> None:
        self._ordered.add(location)

    def on_discard(self, command: c.DiscardSharedFiles) -> None:
        paths = set(command.paths)
        self._orders.setdefault(command.checkpoint_id, set()).update(paths)
        if foreign := paths & self._foreign:
            raise LawBroken(Law.SHARED, f"{sorted(foreign)} are deleted, but were not claimed")
        for location, manifest in self._storage.manifests.items():
            # Whoever claims one of several retained checkpoints owns what it shares with the others.
            is_mine = manifest.job_id == command.job_id or location == self._restored
            if is_mine and location not in self._ordered and (needed := paths & shared_paths_of(manifest)):
                raise LawBroken(Law.SHARED, f"{sorted(needed)} are deleted, but {location} names them")

    def check_leftovers(self) -> None:
        retained: set[str] = set()
        for location, manifest in self._storage.manifests.items():
            if location not in self._ordered:
                retained |= shared_paths_of(manifest)
        left = (self._told & self._storage.shared.keys()) - retained - self._foreign - self._not_removed
        if left:
            raise LawBroken(Law.SHARED, f"{sorted(left)} are left, and no checkpoint names them")
