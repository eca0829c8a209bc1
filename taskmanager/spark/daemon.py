"""The Python daemon of our Spark workers (``spark.python.daemon.module``): imports all modules once, then forks a process for each subtask attempt.

    JVM ── starts, by `python -m` ──▶ daemon ── fork, 10 ms ──▶ worker = one subtask attempt

Laws:
1. It has one thread when it forks: a lock held by another thread would stay locked in the child forever.
2. pyspark comes from the installed package. The zip and jar entries that Spark puts on ``sys.path`` cost each fresh worker 0.4 s, because
   ``importlib.invalidate_caches`` reads the archives' directories again and again.
3. Freed memory is kept for the next batch, since a new page from the kernel costs more than the work on its bytes. The trim threshold bounds it.
4. It ends when its standard input is closed, that is with the JVM (``pyspark.daemon``), also during the imports; its workers end with it. If Spark replaces it,
   its workers run on (``replacement``).
5. Exit codes of workers other than 0 are noted (``worker_exits``), since only the parent gets them.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import sys
from pathlib import Path

ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MIMALLOC_PURGE_DELAY": "1000",  # Arrow's buffers, in ms
    "MALLOC_ARENA_MAX": "1",  # Python's: one heap for all threads, of which one has the interpreter's lock
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(512 << 20),  # less where a slot is bounded: ``memory.limits``
    "GRPC_ENABLE_FORK_SUPPORT": "0",  # a channel is made only after the fork, so its handlers have nothing to do
    "GRPC_VERBOSITY": "ERROR",
    "SPT_NOENV": "1",  # a worker's title takes the place of its arguments, not of its environment, which tools look for
}
"""Environment variables that native libraries read when they are loaded. Variables that the user has set keep their values."""

PREIMPORTED = (
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.ipc",
    "pandas",  # pyarrow imports it with the first list that becomes an array: half a second in every subtask
    "cloudpickle",
    "msgspec",
    "xxhash",
    "pyspark.worker",
    "pyarrow.pandas_compat",
    "setproctitle",
    "tidegate.taskmanager.spark.worker",
    "tidegate.taskmanager.spark.partitions",
    "tidegate.connectors.collect",
    "tidegate.connectors.collection",
    "tidegate.connectors.file_sink",
    "tidegate.connectors.file_source",
    "tidegate.connectors.hybrid.reader",
    "tidegate.connectors.number_sequence",
    "tidegate.connectors.print_sink",
    "tidegate.connectors.throttle",
    "tidegate.connectors.two_phase_commit",
    "tidegate.functions.adapted.custom_partitioning",
    "tidegate.functions.adapted.frame_functions",
    "tidegate.functions.adapted.join_windows",
    "tidegate.functions.field_reduce",
    "tidegate.functions.sql.scalar",
    "tidegate.table",  # sources, sinks and functions of tables are in it: 0.2 to 0.3 s in each subtask, 0.17 s here
)
"""Modules that any job may need, imported before the first fork. Modules of extras are not here: they would shadow a module of the same name that a job ships
(`kafka.py`).
"""


COLLECT_AFTER = (50_000, 10, 10)
"""Thresholds of Python's cycle collector (``gc.set_threshold``): new objects before a young collection, and collections before older generations are included.

With Python's default of 700, a snapshot of state, which makes as many lists and tuples as there are entries, has the collector traverse all state several times
a second: 50 to 90 ms each time for half a million entries, with the interpreter's lock held. Objects outside cycles are freed at once in any case; old cycles
wait for five million new objects.
"""


def set_environment() -> None:
    """Executes this program again with the variables of ``ENVIRONMENT`` that are not set: the C library reads them when a process starts."""
    missing = {name: value for name, value in ENVIRONMENT.items() if name not in os.environ}
    if missing:
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **missing})  # noqa: S606  (this program again)


def prepare_path(path: list[str]) -> list[str]:
    """Returns the entries of ``sys.path`` that are not archives."""
    return [entry for entry in path if not entry.endswith((".zip", ".jar"))]


def thread_count() -> int | None:
    """Returns the number of this process's threads that the kernel counts; ``None`` where it does not report it (macOS)."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Threads:"))


def has_hung_up(descriptor: int) -> bool:
    """Tells whether all writers of the pipe that ``descriptor`` reads have closed it."""
    poller = select.poll()
    poller.register(descriptor, 0)
    return any(event & select.POLLHUP for _, event in poller.poll(0))


def main() -> None:
    """Runs the daemon: imports the modules, then serves fork requests until standard input ends."""
    set_environment()
    sys.path[:] = prepare_path(sys.path)
    sys.path_importer_cache.clear()
    for module in PREIMPORTED:
        if has_hung_up(0):
            sys.exit("tidegate.taskmanager.spark.daemon: the JVM is gone; not starting")
        importlib.import_module(module)
    importlib.import_module("tidegate.taskmanager.spark.worker").make_ready()
    importlib.import_module("tidegate.aio.parents").let_children_die_with_this()
    importlib.import_module("tidegate.taskmanager.spark.worker_exits").note_exits()
    importlib.import_module("tidegate.taskmanager.spark.replacement").leave_workers_be()
    threads = thread_count()
    if threads is not None and threads != 1:
        sys.exit(
            f"tidegate.taskmanager.spark.daemon: {threads} threads after the imports, so a fork is not safe; not starting"
        )
    daemon = importlib.import_module("pyspark.daemon")
    sys.path_importer_cache.clear()  # PySpark has each worker invalidate every entry; those that are needed again are made anew
    gc.set_threshold(*COLLECT_AFTER)
    gc.collect()
    gc.freeze()  # a collection in a subtask does not walk what was imported, nor touch its pages: 50 ms with the interpreter's lock
    daemon.manager()


if __name__ == "__main__":
    main()
