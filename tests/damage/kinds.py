"""What can happen to a file of a checkpoint, and which files there are."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidegate.model.checkpoint import CheckpointManifest
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.files import LocalCalls
from tidegate.store.state_files import handles_of, place_of

METADATA = "_metadata"


@dataclass(frozen=True)
class Victim:
    """A file of a kept checkpoint: ``_metadata``, or the largest one whose name matches."""

    case: str
    pattern: str

    def find(self, location: str) -> Path:
        if self.pattern == METADATA:
            return Path(location) / METADATA
        _, manifest = CheckpointStorage().read_checkpoint(location)
        found = {Path(place_of(handle, location)) for _, handle in handles_of(manifest) if handle.path}
        return max((path for path in found if path.match(self.pattern)), key=lambda path: path.stat().st_size)


VICTIMS: dict[str, Victim] = {
    "metadata": Victim("hashmap", METADATA),
    "metadata with inline state": Victim("hashmap-inline", METADATA),
    "heap segment": Victim("hashmap", "*-row-*"),
    "heap timers": Victim("hashmap", "*-_timers.event-*"),
    "compressed segment": Victim("hashmap-compressed", "*-pickled-*"),
    "heap changes": Victim("hashmap-incremental", "shared/*-row-*"),
    "rocksdb segment": Victim("rocksdb", "*-row-*"),
    "rocksdb changes": Victim("rocksdb-incremental", "shared/*"),
    "columnar changes": Victim("columnar-incremental", "shared/*"),
    "columnar windows": Victim("windows", "*GlobalWindowAggregate-*"),
    "merging windows": Victim("windows", "*-_merging_windows-*"),
    "data in flight": Victim("unaligned", "*in*flight*"),
    "operator list state": Victim("operator-state", "*-buffer-*"),
    "operator union state": Victim("operator-state", "*-passed-*"),
    "broadcast state": Victim("operator-state", "*-rules-*"),
    "splits": Victim("files", "*-splits-*"),
    "committables": Victim("files", "*-committables-*"),
}

Damage = Callable[[Path, pytest.MonkeyPatch], None]


def cut(keep: Callable[[int], int]) -> Damage:
    def damage(path: Path, _: pytest.MonkeyPatch) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: keep(len(content))])

    return damage


def flipped(at: Callable[[int], int]) -> Damage:
    def damage(path: Path, _: pytest.MonkeyPatch) -> None:
        content = bytearray(path.read_bytes())
        content[at(len(content))] ^= 1
        path.write_bytes(content)

    return damage


def lengthened(path: Path, _: pytest.MonkeyPatch) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def replaced_by_a_neighbour(path: Path, _: pytest.MonkeyPatch) -> None:
    """Another file of the same checkpoint, in full, or one beside it."""
    beside = [*path.parent.iterdir(), *path.parent.parent.glob("*.json")]
    files = [other for other in beside if other.is_file() and other.read_bytes() != path.read_bytes()]
    path.write_bytes(max(files, key=lambda other: other.name).read_bytes())


def replaced_by_nothing_of_its_size(path: Path, _: pytest.MonkeyPatch) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def missing(path: Path, _: pytest.MonkeyPatch) -> None:
    path.unlink()


def a_directory(path: Path, _: pytest.MonkeyPatch) -> None:
    path.unlink()
    path.mkdir()


def a_fifo(path: Path, _: pytest.MonkeyPatch) -> None:
    path.unlink()
    os.mkfifo(path)


def a_link_to_a_fifo(path: Path, _: pytest.MonkeyPatch) -> None:
    path.rename(path.with_name("elsewhere"))
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def a_link_to_nothing(path: Path, _: pytest.MonkeyPatch) -> None:
    path.unlink()
    path.symlink_to("nothing")


def failing(reason: int, call: str) -> Damage:
    """The file is there, and the system says no: tests may run as a user who may read everything."""

    def damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real_open, real_read = LocalCalls.open, LocalCalls.read
        opened: set[int] = set()

        def refuse() -> None:
            raise OSError(reason, os.strerror(reason), str(path))

        def open_file(calls: LocalCalls, name: str, flags: int) -> int:
            if name == str(path) and call == "open":
                refuse()
            descriptor = real_open(calls, name, flags)
            (opened.add if name == str(path) else opened.discard)(descriptor)
            return descriptor

        def read(calls: LocalCalls, descriptor: int, size_bytes: int) -> bytes:
            if call == "read" and descriptor in opened:
                refuse()
            return real_read(calls, descriptor, size_bytes)

        monkeypatch.setattr(LocalCalls, "open", open_file)
        monkeypatch.setattr(LocalCalls, "read", read)

    return damage


DAMAGES: dict[str, Damage] = {
    "emptied": cut(lambda size: 0),
    "cut to one byte": cut(lambda size: 1),
    "cut in the middle": cut(lambda size: size // 2),
    "without its last byte": cut(lambda size: size - 1),
    "longer": lengthened,
    "first byte": flipped(lambda size: 0),
    "a byte at a third": flipped(lambda size: size // 3),
    "a byte in the middle": flipped(lambda size: size // 2),
    "last byte": flipped(lambda size: size - 1),
    "replaced by a neighbour": replaced_by_a_neighbour,
    "zeros": replaced_by_nothing_of_its_size,
    "missing": missing,
    "a directory": a_directory,
    "a FIFO": a_fifo,
    "a link to a FIFO": a_link_to_a_fifo,
    "a link to nothing": a_link_to_nothing,
    "no permission": failing(errno.EACCES, "open"),
    "a disk that fails": failing(errno.EIO, "read"),
}


def names_of(manifest: CheckpointManifest, location: str) -> set[Path]:
    return {Path(place_of(handle, location)) for _, handle in handles_of(manifest) if handle.path}
