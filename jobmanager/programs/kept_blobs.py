"""Blobs in an object store, where the next JobManager finds them; this one serves its own copies.

Operations run one after the other, so a blob that is deleted and uploaded again is there in the end.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from tidegate.aio.pool import Pool
from tidegate.jobmanager.programs.blob_names import BlobNames
from tidegate.model.errors import CorruptData, StorageError
from tidegate.model.ids import BlobKey
from tidegate.store.files import Files
from tidegate.store.locations import open_files, storage_error

T = TypeVar("T")

_log = logging.getLogger("jobmanager")


class KeptBlobs:
    """The blobs of one leader in an object store. ``location``: a URI. ``term``: of the leader.

    Belongs to the loop's thread; the object store is called in another one.
    """

    def __init__(self, location: str, term: int) -> None:
        self._location = location
        self._pool = Pool(1, "kept-blobs")
        self._names = BlobNames(term)
        """The blobs that jobs of this leader need. Only the worker thread uses it."""

    @cached_property
    def _opened(self) -> tuple[Files, str]:
        return open_files(self._location)

    async def keep(self, keys: Iterable[BlobKey], directory: Path) -> None:
        """Uploads copies from ``directory``; they are durable when this returns. Raises ``StorageError``."""

        def keep(wanted: list[BlobKey]) -> None:
            for key in wanted:
                if self._names.get(key) is None:
                    content = (directory / key).read_bytes()
                    name = self._names.add(key)
                    try:
                        self._do("keep", name, lambda files, path: files.write(path, [content]))  # noqa: B023  (called at once)
                    except StorageError:
                        self._names.remove(key)
                        raise

        wanted = list(keys)
        await self._pool.submit(lambda: keep(wanted))

    async def fetch(self, keys: Iterable[BlobKey], directory: Path) -> None:
        """Downloads blobs that are not in ``directory``; missing ones are left out. Raises ``StorageError`` or ``CorruptData``."""

        def fetch(wanted: list[BlobKey]) -> None:
            there = BlobNames()
            there.found(self._there())
            for key in wanted:
                name = there.get(key)
                if name is None:
                    continue
                content = self._do("read", name, lambda files, path: files.read(path))
                if hashlib.sha256(content).hexdigest() != key:
                    raise CorruptData(f"blob {self._location}/{name} is damaged; submit the job again")
                (directory / key).write_bytes(content)
                self._names.found([name])

        wanted = [key for key in keys if not (directory / key).is_file()]
        if wanted:
            await self._pool.submit(lambda: fetch(wanted))

    def forget(self, keys: Iterable[BlobKey]) -> None:
        """Deletes blobs in the background. If the object store does not answer, the next JobManager deletes them."""
        released = list(keys)
        self._soon(lambda: [self._names.remove(key) for key in released])

    def forget_others(self, needed: Iterable[BlobKey]) -> None:
        """Deletes, in the background, blobs of earlier JobManagers that no job needs."""
        known = set(needed)
        self._soon(lambda: [name for name in self._there() if self._names.may_go(name, known)])

    def close(self) -> None:
        self._pool.close()

    def _there(self) -> Iterable[str]:
        files, path = self._opened
        return files.sizes(path)

    def _soon(self, find: Callable[[], list[str]]) -> None:
        def remove() -> None:
            try:
                for name in find():
                    self._do("remove", name, lambda files, path: files.delete(path))
            except (StorageError, OSError) as error:
                _log.warning("could not remove a program that no job needs from %s: %s", self._location, error)

        self._pool.submit(remove)

    def _do(self, what: str, name: str, call: Callable[[Files, str], T]) -> T:
        files, path = self._opened
        try:
            return call(files, f"{path}/{name}")
        except OSError as error:
            raise storage_error(f"{what} a program of a job in", f"{self._location}/{name}", error) from None
