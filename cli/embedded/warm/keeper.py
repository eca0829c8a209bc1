"""The process of `tidegate cluster keep`: holds an embedded cluster, lends it, and ends when no program has come for long.

the lock of its directory ─▶ the cluster starts ─▶ the socket is there ─▶ programs come and go (``lending``)
                                                         └─ idle for tidegate.warm-cluster.idle-timeout, SIGTERM or `keep --stop`
                                                            ─▶ the socket goes, the cluster ends, and then the process
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tidegate.aio.process import write_pid_file
from tidegate.cli.embedded.children import END_TIMEOUT_S
from tidegate.cli.embedded.local_cluster import LocalCluster
from tidegate.cli.embedded.warm.facts import Facts
from tidegate.cli.embedded.warm.lending import Lending
from tidegate.cli.embedded.warm.meeting import PID, SOCKET, keeper_of, listen, lock_of
from tidegate.model.errors import Misuse
from tidegate.model.values import JsonObject

OUTPUT_FILE = "output.log"
LOCK_LIMIT_S = 2 * END_TIMEOUT_S
"""How long a keeper waits for the end of the one before it, in seconds: as long as `keep --stop` does."""
_LOOK_S = 0.1
"""How often it looks whether that one has ended, in seconds. Chosen, not measured."""


class Keeper:
    """Keeps one cluster. ``settings``: the options of its processes."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str], slots: int, idle_timeout_ms: int, facts: Facts
    ) -> None:
        self._directory = directory
        self._definitions = [f"{key}={text}" for key, text in settings.items()]
        self._slots = slots
        self._idle_timeout_ms = idle_timeout_ms
        self._facts = facts

    def run(self, on_ready: Callable[[JsonObject], None]) -> None:
        """Keeps the cluster until its end. ``on_ready`` is called when programs may come. Raises the error that keeps it from starting."""
        lock = locked(self._directory)
        ending = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: ending.set())
        pipes = _print_into_pipes()
        with open(self._directory / OUTPUT_FILE, "ab") as log:
            lending = Lending(self._start, pipes, log.fileno(), self._idle_timeout_ms, self._facts, ending)
            try:
                with listen(self._directory) as listener:
                    threading.Thread(target=_accept, args=(listener, lending), name="warm-accept", daemon=True).start()
                    on_ready(lending.standing().to_json())
                    lending.watch()
                    # Before the listener is closed: programs find no socket then, and not one that looks like that of a killed process.
                    (self._directory / SOCKET).unlink(missing_ok=True)
            finally:
                (self._directory / SOCKET).unlink(missing_ok=True)
                lending.close()
        os.close(lock)

    def _start(self) -> LocalCluster:
        return LocalCluster(self._definitions, self._slots)


def locked(directory: Path, limit_s: float = LOCK_LIMIT_S) -> int:
    """Locks the directory for this keeper, and writes its pid; waits for the end of the one before. Raises ``Misuse`` when that lives on."""
    deadline = time.monotonic() + limit_s
    while (lock := lock_of(directory)) is None:
        if time.monotonic() > deadline:
            raise Misuse(
                f"another warm cluster (pid {keeper_of(directory)}) is kept in {directory}; `tidegate cluster keep --stop` ends it"
            )
        time.sleep(_LOOK_S)
    write_pid_file(directory / PID)
    return lock


def _accept(listener: socket.socket, lending: Lending) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # it was closed
            return
        threading.Thread(target=lending.serve, args=(connection,), name="warm-program", daemon=True).start()


def _print_into_pipes() -> tuple[int, int]:
    """Makes pipes the standard output and error of this process and its children; returns the ends from which they are read."""
    reads = []
    for standard in (1, 2):
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.dup2(write, standard)
        os.close(write)
        reads.append(read)
    return reads[0], reads[1]
