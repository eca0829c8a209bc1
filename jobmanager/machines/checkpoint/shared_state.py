"""The registry of shared state: which files below ``shared/`` are used by which checkpoints, and which can be deleted.

    acknowledged with a shared handle ─▶ used by that checkpoint ─▶ aborted ────────────────▶ unused: deleted, once
                                                   │                                           ▲
                                                   └─ completed ─▶ subsumed, or left behind ───┘ when no pending checkpoint
                                                                   at the end of the job         may still build on it

Laws: the files of every acknowledgement are registered, late ones too; a file is deleted when no
retained and no pending checkpoint uses it; subtasks build on confirmed checkpoints only, not older than the oldest that was
retained when theirs was triggered (``CheckpointOptions.oldest_base_id``), so a pending one *holds* everything completed from
there on; files that the job does not own are never deleted. Savepoints have no shared files.

Follows Flink's ``SharedStateRegistryImpl.java``, but counts users: Flink keeps what an aborted checkpoint wrote until
older ones are subsumed, and deletes what a pending one may still name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidegate.model.checkpoint import CheckpointManifest, OperatorSnapshot, SubtaskSnapshot
from tidegate.model.ids import CheckpointId


@dataclass(slots=True)
class SharedFile:
    """A shared file. ``created_by`` and ``last_used_by``: the first and the last checkpoint that named it."""

    created_by: CheckpointId
    last_used_by: CheckpointId
    users: int = 0

    @property
    def is_unused(self) -> bool:
        return self.users == 0


class SharedStateRegistry:
    """Counts the users of shared files. Paths are complete URIs; methods that return paths return files to delete now."""

    def __init__(self) -> None:
        self._files: dict[str, SharedFile] = {}
        self._used_by: dict[CheckpointId, set[str]] = {}
        self._foreign: set[str] = set()
        self._held: dict[CheckpointId, int] = {}
        self._retired: set[CheckpointId] = set()

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def __getitem__(self, path: str) -> SharedFile:
        return self._files[path]

    def register(self, checkpoint_id: CheckpointId, paths: Iterable[str], *, is_ours: bool = True) -> None:
        """Notes that a checkpoint uses these files, by an acknowledgement or its manifest. Files once registered as not ours never become ours."""
        used = self._used_by.setdefault(checkpoint_id, set())
        for path in paths:
            if not is_ours:
                self._foreign.add(path)
            file = self._files.get(path)
            if file is None:
                file = self._files[path] = SharedFile(checkpoint_id, checkpoint_id)
            file.last_used_by = max(file.last_used_by, checkpoint_id)
            if path not in used:
                used.add(path)
                file.users += 1
        if not used:
            del self._used_by[checkpoint_id]

    def unknown(self, paths: Iterable[str]) -> list[str]:
        """Returns the paths of a late acknowledgement that no checkpoint uses and that the job may delete."""
        return [p for p in dict.fromkeys(paths) if p not in self._files and p not in self._foreign]

    def hold(self, pending: CheckpointId, oldest_base_id: int) -> None:
        """Protects checkpoints from ``oldest_base_id`` on until the pending one is decided, since its subtasks may build on them."""
        self._held[pending] = oldest_base_id

    def decided(self, pending: CheckpointId) -> list[str]:
        """Releases what a pending checkpoint held."""
        self._held.pop(pending, None)
        return self._sweep()

    def abandon(self, checkpoint_id: CheckpointId) -> list[str]:
        """Drops an aborted checkpoint: it was never confirmed, so no subtask builds on it."""
        return self._drop(checkpoint_id)

    def retire(self, checkpoint_id: CheckpointId) -> list[str]:
        """Drops a completed checkpoint that is not retained any longer."""
        if checkpoint_id in self._used_by:
            self._retired.add(checkpoint_id)
        return self._sweep()

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when files and the checkpoints that use them contradict each other."""
        users: dict[str, int] = {}
        for paths in self._used_by.values():
            for path in paths:
                users[path] = users.get(path, 0) + 1
        counted = {path: file.users for path, file in self._files.items()}
        assert counted == users, f"users are counted as {counted}, and are {users}"
        for path, file in self._files.items():
            assert file.created_by <= file.last_used_by, (
                f"{path} is used by {file.last_used_by}, before {file.created_by}"
            )
        unknown = self._retired - self._used_by.keys()
        assert not unknown, f"checkpoints {sorted(unknown)} are retired, and use nothing"

    def _sweep(self) -> list[str]:
        held_from = min(self._held.values(), default=None)
        free = sorted(r for r in self._retired if held_from is None or r < held_from)
        self._retired.difference_update(free)
        return [path for checkpoint_id in free for path in self._drop(checkpoint_id)]

    def _drop(self, checkpoint_id: CheckpointId) -> list[str]:
        gone: list[str] = []
        for path in sorted(self._used_by.pop(checkpoint_id, ())):
            file = self._files[path]
            file.users -= 1
            if file.is_unused:
                del self._files[path]
                if path not in self._foreign:
                    gone.append(path)
        return gone


def shared_paths(snapshot: SubtaskSnapshot) -> Iterable[str]:
    for operator in snapshot.operators.values():
        yield from _shared(operator)


def exclusive_paths(snapshot: SubtaskSnapshot) -> Iterable[str]:
    """Yields the files below the checkpoint's own directory."""
    for operator in snapshot.operators.values():
        for handle in operator.handles:
            if handle.path and "/" not in handle.path:
                yield handle.path


def shared_paths_of(manifest: CheckpointManifest) -> Iterable[str]:
    for operator in manifest.operators:
        for snapshot in operator.subtasks.values():
            yield from _shared(snapshot)


def _shared(snapshot: OperatorSnapshot) -> Iterator[str]:
    """Yields the shared files of an operator's state. In-flight data is never shared."""
    for segment in snapshot.keyed:
        if segment.handle.is_shared:
            yield segment.handle.path
    for elements in snapshot.operator:
        if elements.handle.is_shared:
            yield elements.handle.path
