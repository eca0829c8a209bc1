"""The blob store of the JobManager: programs and files of jobs, by the sha256 of their content.

A blob is kept while a job that names it is not terminal; an upload that no job names yet is kept until the process ends, or until later ones need
its space (``tidegate.blob.max-size``).

Where leaders share a directory or a bucket, each writes files of its own, ``<sha256>-<term>``, and deletes none of a later term. A leader that was
deposed and does not know it could otherwise delete a program of its successor, to which a client may have uploaded the same content.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tidegate.aio.working_directories import make_below
from tidegate.jobmanager.programs.blob_names import BlobNames
from tidegate.jobmanager.programs.kept_blobs import KeptBlobs
from tidegate.model.errors import CorruptData, ExternalError, InvalidJob, StorageError
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey, JobId

_KEY = re.compile(r"[0-9a-f]{64}")
_WAITING_TIMES = 4
"""The total size of uploads that no job has named, as a multiple of the largest allowed blob. Chosen, not measured."""
_WAITING_S = 3600
"""How long an upload may wait for its job, in seconds. Chosen: a client submits it at once."""


class BlobUpload:
    """A blob that is being uploaded. Call ``close`` in any case."""

    def __init__(self, directory: Path, names: BlobNames) -> None:
        self._directory = directory
        self._names = names
        self._temporary = directory / names.of_upload(secrets.token_hex(8))
        self._digest = hashlib.sha256()
        self._file = self._temporary.open("wb")
        self.size_bytes = 0

    def add(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)
        self.size_bytes += len(data)

    def finish(self, *, durable: bool = False) -> BlobKey:
        """Completes the blob; ``durable``: it survives a loss of power."""
        if durable:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()
        key = BlobKey(self._digest.hexdigest())
        os.replace(self._temporary, self._directory / self._names.add(key))
        return key

    def close(self) -> None:
        """Drops the upload if it was not finished."""
        self._file.close()
        self._temporary.unlink(missing_ok=True)


class BlobStore:
    """Blobs in a directory of this process, which ``close`` removes, or in a directory of the cluster (``kept``).

    The process's directory is below ``directory``, which others may share, else in ``working``. Blobs that are kept in ``bucket`` have copies
    in the directory of this process.
    """

    def __init__(
        self,
        directory: str | None,
        working: Path,
        kept: Path | None = None,
        bucket: KeptBlobs | None = None,
        term: int | None = None,
        max_bytes: int = 1 << 30,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Opens the store. ``term``: of the leader that writes to ``kept``. ``max_bytes``: of one blob.

        Raises ``ExternalError`` when the directory cannot be created.
        """
        self._bucket = bucket
        self._names = BlobNames(term if kept is not None else None)
        is_own = directory is not None and kept is None
        self._owned = make_below(Path(directory), "blobs", "blob.storage.directory") if is_own and directory else None
        self._directory = kept or (working / "blobs" if self._owned is None else self._owned.directory)
        self._is_kept = kept is not None
        try:
            self._directory.mkdir(exist_ok=True)
        except OSError as error:
            raise ExternalError(
                f"cannot make {self._directory} for programs of jobs: {error.strerror}; blob.storage.directory or "
                "high-availability.storageDir must name a directory that can be written"
            ) from None
        self._names.found(path.name for path in self._directory.iterdir())
        self.max_bytes = max_bytes
        self._now_s = now_s
        self._waiting: dict[BlobKey, tuple[int, float]] = {}
        """Uploads that no job has named, oldest first: size, and when each came."""
        self._unclaimed: Counter[BlobKey] = Counter()
        """How many uploads of each blob have no submitted job yet: the end of another job must not delete them."""
        self._jobs_of: dict[BlobKey, set[JobId]] = {}

    @property
    def directory(self) -> Path:
        return self._directory

    def begin(self) -> BlobUpload:
        return BlobUpload(self._directory, self._names)

    def finish(self, upload: BlobUpload) -> BlobKey:
        key = upload.finish(durable=self._is_kept)
        self._unclaimed[key] += 1
        if not self._jobs_of.get(key):
            self._waiting.pop(key, None)
            self._waiting[key] = upload.size_bytes, self._now_s()
            self._drop_oldest(key)
        return key

    def read(self, key: str, chunk_bytes: int) -> Iterator[bytes]:
        """Yields the content in pieces, its checksum verified at the end. Raises ``StorageError`` or ``CorruptData``."""
        path = self._path(key)
        if path is None:
            raise StorageError(f"the JobManager does not have the program (blob) {key!r}; submit the job again")
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(chunk_bytes):
                digest.update(chunk)
                yield chunk
        if digest.hexdigest() != key:
            raise CorruptData(f"blob {path} is damaged; submit the job again")

    def retain(self, graph: JobGraph) -> None:
        """Registers a job for its blobs. Raises ``InvalidJob`` when one was not uploaded."""
        keys = graph.blob_keys()
        for key in keys:
            if self._path(key) is None:
                raise InvalidJob(
                    f"job {graph.name!r} needs the program (blob) {key[:16]}, which was not uploaded; submit the job again"
                )
        for key in keys:
            self._jobs_of.setdefault(key, set()).add(graph.job_id)
            self._unclaimed[key] = max(0, self._unclaimed[key] - 1)
            self._waiting.pop(key, None)

    async def keep(self, job_id: JobId) -> None:
        """Makes a job's blobs durable for the next JobManager. Raises ``StorageError``."""
        if self._bucket is not None:
            await self._bucket.keep([key for key, jobs in self._jobs_of.items() if job_id in jobs], self._directory)

    async def fetch(self, graph: JobGraph) -> None:
        """Fetches the blobs that an earlier JobManager kept for a job. Raises ``StorageError`` or ``CorruptData``."""
        if self._bucket is not None:
            keys = [key for key in graph.blob_keys() if _KEY.fullmatch(key)]
            await self._bucket.fetch(keys, self._directory)
            self._names.found(keys)

    def release(self, job_id: JobId) -> None:
        """Deletes the blobs of an ended job that no other job needs."""
        released = []
        for key, jobs in list(self._jobs_of.items()):
            jobs.discard(job_id)
            if not jobs and self._unclaimed[key] <= 0:
                del self._jobs_of[key], self._unclaimed[key]
                (self._directory / self._names.remove(key)).unlink(missing_ok=True)
                released.append(key)
        if self._bucket is not None and released:
            self._bucket.forget(released)

    def remove_unclaimed(self) -> None:
        """Deletes blobs that an earlier process left and no job of this one needs."""
        for path in self._directory.iterdir():
            if self._names.may_go(path.name, self._jobs_of):
                path.unlink(missing_ok=True)
        if self._bucket is not None:
            self._bucket.forget_others(self._jobs_of)

    def close(self) -> None:
        """Removes what this process stored, unless it is kept."""
        if self._bucket is not None:
            self._bucket.close()
        if self._is_kept:
            return
        if self._owned is not None:
            self._owned.remove()
        else:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _drop_oldest(self, newest: BlobKey) -> None:
        """Deletes uploads that no job has named, beyond their total size, and those that waited too long."""
        while True:
            oldest, (_, since_s) = next(iter(self._waiting.items()))
            takes_bytes = sum(size_bytes for size_bytes, _ in self._waiting.values())
            is_due = takes_bytes > _WAITING_TIMES * self.max_bytes or self._now_s() - since_s > _WAITING_S
            if oldest == newest or not is_due:
                return
            del self._waiting[oldest], self._unclaimed[oldest]
            (self._directory / self._names.remove(oldest)).unlink(missing_ok=True)

    def _path(self, key: str) -> Path | None:
        """Returns the file of a blob; ``None`` when there is none."""
        name = self._names.get(key)
        return self._directory / name if name is not None and (self._directory / name).is_file() else None
