"""RocksDB as the backend uses it: one database for each operator of a subtask, without a log, removed with the attempt.

Its content needs not be durable, since checkpoints are. This is the only module that imports ``rocksdict``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.model.configuration import Configuration
from tidegate.model.errors import InvalidJob, StorageError
from tidegate.model.options import RocksDBOptions
from tidegate.model.options.rocksdb import PriorityQueueStateType
from tidegate.taskmanager.keyed_state.rocksdb.keys import after

Pair = tuple[bytes, bytes]
BATCH_ROWS = 4096
_Rocks = Any
"""The type of objects of rocksdict, whose stubs differ from what it accepts."""


@dataclass(frozen=True, slots=True)
class RocksDBSettings:
    """The settings of a database. ``memory_bytes``: for block cache and write buffers together; 0: each has its own size. ``cached_timers``: timers of each key
    group that are kept in memory.
    """

    directories: tuple[str, ...] = ()
    memory_bytes: int = 0
    write_buffer_ratio: float = 0.5
    block_cache_bytes: int = 8 << 20
    write_buffer_bytes: int = 64 << 20
    write_buffers: int = 2
    threads: int = 2
    bloom_filter_bits: float = 0.0
    timers_on_heap: bool = False
    cached_timers: int = 128

    @staticmethod
    def of(found: Configuration, managed_memory_bytes: int) -> RocksDBSettings:
        """Reads the settings from a job's configuration. ``managed_memory_bytes``: what this database may use of its slot, 0 when unbounded."""
        fixed = found.get(RocksDBOptions.FIXED_PER_SLOT)
        directories = found.get(RocksDBOptions.LOCAL_DIRECTORIES)
        managed = managed_memory_bytes if found.get(RocksDBOptions.MANAGED_MEMORY) else 0
        return RocksDBSettings(
            directories=tuple(directories or ()),
            memory_bytes=managed if fixed is None else fixed,
            write_buffer_ratio=found.get(RocksDBOptions.WRITE_BUFFER_RATIO),
            block_cache_bytes=found.get(RocksDBOptions.BLOCK_CACHE_SIZE),
            write_buffer_bytes=found.get(RocksDBOptions.WRITE_BUFFER_SIZE),
            write_buffers=found.get(RocksDBOptions.WRITE_BUFFER_COUNT),
            threads=found.get(RocksDBOptions.THREADS),
            bloom_filter_bits=found.get(RocksDBOptions.BLOOM_FILTER_BITS)
            if found.get(RocksDBOptions.BLOOM_FILTER)
            else 0.0,
            timers_on_heap=found.get(RocksDBOptions.TIMER_SERVICE) is PriorityQueueStateType.HEAP,
            cached_timers=found.get(RocksDBOptions.TIMER_CACHE_SIZE),
        )


class View:
    """The rows of a database at the moment when the view was made. It is read by one thread, one iteration at a time, also after the database was closed.

    It is an iterator, since iterators of rocksdict's ``Snapshot`` show later writes.
    """

    def __init__(self, iterator: _Rocks, walks: dict[bytes, Iterator[Pair]], path: str) -> None:
        self._walker = _Walker(iterator, path)
        self._walks = walks
        self._path = path

    def all_rows(self, prefix: bytes) -> Iterator[Pair]:
        """Yields the rows that begin with ``prefix``, one of those for which the view was made. Only once for each prefix. Raises ``StorageError``."""
        last = prefix
        for pair in self._walks.pop(prefix):
            if not pair[0].startswith(prefix):
                return
            yield pair
            last = pair[0]
        for _ in self.rows(prefix, last + b"\0"):  # such a walk ends at an error as it does at the end: ask who tells
            raise StorageError(
                f"the RocksDB in {self._path} lost the rows after {last!r}; the attempt must be restarted"
            )

    def rows(self, prefix: bytes, begin: bytes = b"") -> Iterator[Pair]:
        """Yields the rows that begin with ``prefix``, in order, from ``begin`` on. Raises ``StorageError``.

        Successive prefixes in ascending order pass each deleted row only once.
        """
        return self._walker.rows(prefix, begin or prefix)


class _Walker:
    """Iterates over rows and remembers which keys in front of its position do not exist.

    RocksDB keeps deleted rows until it compacts, and a seek passes all that follow one another, holding the interpreter's lock: seeking each of many deleted
    neighbours would be quadratic.
    """

    def __init__(self, iterator: _Rocks, path: str) -> None:
        self._iterator = iterator
        self._path = path
        self._clear_from: bytes | None = None
        """A key such that there is no row between it and the position of the iterator; ``None``: not known."""

    def rows(self, prefix: bytes, begin: bytes) -> Iterator[Pair]:
        iterator = self._iterator
        valid, key, value, step = iterator.valid, iterator.key, iterator.value, iterator.next
        try:
            if not self._is_first_from(begin):
                self._clear_from = None
                iterator.seek(begin)
                self._clear_from = begin
            while valid():
                row = key()
                if not row.startswith(prefix):
                    return
                yield row, value()
                self._clear_from = None
                step()
                self._clear_from = row + b"\0"
            iterator.status()
        except Exception as error:  # rocksdict knows no other
            raise _failed("read", self._path, error) from error

    def _is_first_from(self, begin: bytes) -> bool:
        """Tells whether a seek of ``begin`` would leave the iterator where it is."""
        if self._clear_from is None or begin < self._clear_from:
            return False
        return not self._iterator.valid() or begin <= self._iterator.key()


def _failed(what: str, path: str, error: Exception) -> StorageError:
    return StorageError(f"cannot {what} the RocksDB in {path}: {error}")


class RocksDatabase:
    """The database: rows in the order of their keys. Used from the subtask's thread; ``rows`` and a ``View`` from any. Errors of the disk are ``StorageError``
    naming the directory.
    """

    def __init__(self, settings: RocksDBSettings, directory: str, subtask: int = 0) -> None:
        """Opens a new database. ``directory``: a directory of this attempt. Raises ``InvalidJob`` when rocksdict is not installed, and ``StorageError`` when
        the database cannot be opened.
        """
        self.settings = settings
        self._library = _Library.load()
        own = settings.directories
        parent = own[subtask % len(own)] if own else directory or None
        try:
            if parent is not None:
                os.makedirs(parent, exist_ok=True)
            self.path = tempfile.mkdtemp(prefix="rocksdb-", dir=parent)
            self._db = self._library.open(os.path.join(self.path, "db"), settings)
        except Exception as error:  # rocksdict knows no other
            raise _failed("open", parent or tempfile.gettempdir(), error) from error
        self._get, self._put, self._delete = self._db.get, self._db.put, self._db.delete

    def get(self, row: bytes) -> bytes | None:
        try:
            found: bytes | None = self._get(row)
        except Exception as error:
            raise _failed("read", self.path, error) from error
        return found

    def put(self, row: bytes, value: bytes) -> None:
        try:
            self._put(row, value)
        except Exception as error:
            raise _failed("write", self.path, error) from error

    def delete(self, row: bytes) -> None:
        try:
            self._delete(row)
        except Exception as error:
            raise _failed("write", self.path, error) from error

    def rows(self, prefix: bytes, begin: bytes = b"", end: bytes = b"") -> Iterator[Pair]:
        """Yields the rows that begin with ``prefix`` now, in order, from ``begin`` on, up to before ``end``."""
        # Kept in a local name, since rocksdict does not hold the bound that it reads.
        options = self._library.bounded(end or after(prefix))
        yield from _Walker(self._db.iter(options), self.path).rows(prefix, begin or prefix)

    def last(self, prefix: bytes) -> bytes | None:
        """Returns the key of the last row that begins with ``prefix``; ``None`` if there is none. Raises ``StorageError``."""
        iterator = self._db.iter()
        try:
            iterator.seek_for_prev(after(prefix))
            found: bytes | None = iterator.key() if iterator.valid() else None
            iterator.status()
        except Exception as error:  # rocksdict knows no other
            raise _failed("read", self.path, error) from error
        return found if found is not None and found.startswith(prefix) else None

    def put_all(self, rows: Sequence[Pair]) -> None:
        """Writes rows in one batch, which is cheaper than one by one."""
        try:
            self._db.write(self._library.batch(rows), self._library.write_options)
        except Exception as error:
            raise _failed("write", self.path, error) from error

    def delete_range(self, begin: bytes, end: bytes) -> None:
        """Deletes all rows from ``begin`` to before ``end``."""
        try:
            self._db.delete_range(begin, end)
        except Exception as error:
            raise _failed("write", self.path, error) from error

    def view(self, prefixes: Iterable[bytes] = ()) -> View:
        """Makes a view of the present rows, in constant time. ``prefixes``: those whose rows will all be read, which is cheaper when it is known."""
        walks = {prefix: iter(self._db.items(from_key=prefix)) for prefix in prefixes}
        return View(self._db.iter(), walks, self.path)

    def close(self) -> None:
        """Closes the database and removes its files. A second call does nothing."""
        self._db.close()
        shutil.rmtree(self.path, ignore_errors=True)


class _Library:
    """The library rocksdict, loaded when the first database is opened."""

    def __init__(self) -> None:
        import rocksdict  # the backend is an extra

        self._rocksdict: _Rocks = rocksdict
        self.write_options = self._rocksdict.WriteOptions()
        self.write_options.disable_wal = True

    @staticmethod
    def load() -> _Library:
        """Loads rocksdict. Raises ``InvalidJob`` naming the extra to install."""
        try:
            return _Library()
        except ImportError as error:
            raise InvalidJob(
                f"state.backend.type: rocksdb needs rocksdict on every TaskManager ({error}): pip install 'tidegate[rocksdb]'"
            ) from None

    def open(self, path: str, settings: RocksDBSettings) -> _Rocks:
        library = self._rocksdict
        options = library.Options(raw_mode=True)
        options.create_if_missing(True)
        options.increase_parallelism(settings.threads)
        options.set_max_write_buffer_number(settings.write_buffers)
        options.set_keep_log_file_num(1)
        options.set_level_compaction_dynamic_level_bytes(True)
        if settings.memory_bytes:
            # as in Flink, whose proportions leave room for what RocksDB takes beyond its limits
            buffers = int(2 * settings.write_buffer_ratio * settings.memory_bytes / 3)
            cache = library.Cache(int((3 - settings.write_buffer_ratio) * settings.memory_bytes / 3))
            shared = library.WriteBufferManager.new_write_buffer_manager_with_cache(buffers, False, cache)
            options.set_write_buffer_manager(shared)
            options.set_write_buffer_size(min(settings.write_buffer_bytes, max(1 << 20, buffers // 2)))
        else:
            cache = library.Cache(settings.block_cache_bytes)
            options.set_write_buffer_size(settings.write_buffer_bytes)
        blocks = library.BlockBasedOptions()
        blocks.set_block_cache(cache)
        blocks.set_cache_index_and_filter_blocks(bool(settings.memory_bytes))
        if settings.bloom_filter_bits:
            blocks.set_bloom_filter(settings.bloom_filter_bits, False)
        options.set_block_based_table_factory(blocks)
        database = library.Rdict(path, options)
        database.set_write_options(self.write_options)
        return database

    def bounded(self, end: bytes) -> _Rocks:
        options = self._rocksdict.ReadOptions()
        options.set_iterate_upper_bound(end)
        return options

    def batch(self, rows: Sequence[Pair]) -> _Rocks:
        found = self._rocksdict.WriteBatch(raw_mode=True)
        for key, value in rows:
            found.put(key, value)
        return found
