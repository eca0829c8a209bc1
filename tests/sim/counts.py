"""Keyed state of the simulated counter: counts by key group, frozen without a copy, written incrementally.

A snapshot refers to the shared file of a key group that has not changed since a confirmed checkpoint wrote it; what has changed
gets a file of its own. It builds on confirmed checkpoints only, and not on those before ``oldest_base_id``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.sim.handles import SharedFile
from tests.sim.storage import Content
from tidegate.model.checkpoint import CheckpointOptions
from tidegate.model.ids import AttemptId


@dataclass(frozen=True, slots=True)
class FrozenCounts:
    groups: dict[int, Content]
    files: dict[int, SharedFile]


@dataclass(frozen=True, slots=True)
class _Written:
    """A key group in a shared file: ``version`` of its content."""

    path: str
    version: int


class CounterState:
    def __init__(self, attempt: AttemptId) -> None:
        self._attempt = attempt
        self.groups: dict[int, Content] = {}
        self._versions: dict[int, int] = {}
        self._frozen: set[int] = set()
        self._written: dict[int, dict[int, _Written]] = {}
        """By checkpoint, confirmed or not."""
        self._confirmed = 0

    def restore(self, groups: dict[int, tuple[Content, str]], checkpoint_id: int) -> None:
        self.groups = {group: counts for group, (counts, _) in groups.items()}
        self._written[checkpoint_id] = {group: _Written(path, 0) for group, (_, path) in groups.items() if path}
        self._confirmed = checkpoint_id

    def count(self, group: int, key: int) -> int:
        counts = self.groups.setdefault(group, {})
        counts[key] = counts.get(key, 0) + 1
        self._versions[group] = self._versions.get(group, 0) + 1
        return counts[key]

    def unshare(self, group: int) -> None:
        if group in self._frozen:
            self.groups[group] = dict(self.groups[group])
            self._frozen.discard(group)

    def freeze(self, checkpoint_id: int, options: CheckpointOptions) -> FrozenCounts:
        self._frozen = set(self.groups)
        files: dict[int, SharedFile] = {}
        if options.shared_location:
            base = {} if options.is_full else self._base(options.oldest_base_id)
            files = {group: self._file(group, base.get(group), checkpoint_id, options) for group in self.groups}
            self._written[checkpoint_id] = {
                group: _Written(file.path, self._versions.get(group, 0)) for group, file in files.items()
            }
        return FrozenCounts(dict(self.groups), files)

    def _base(self, oldest_base_id: int) -> dict[int, _Written]:
        return self._written.get(self._confirmed, {}) if self._confirmed >= oldest_base_id else {}

    def _file(self, group: int, base: _Written | None, checkpoint_id: int, options: CheckpointOptions) -> SharedFile:
        if base is not None and base.version == self._versions.get(group, 0):
            return SharedFile(base.path, is_new=False)
        return SharedFile(f"{options.shared_location}/{self._attempt}-{checkpoint_id}-{group}", is_new=True)

    def on_confirmed(self, checkpoint_id: int) -> None:
        self._confirmed = checkpoint_id
        self._written = {number: files for number, files in self._written.items() if number >= checkpoint_id}
