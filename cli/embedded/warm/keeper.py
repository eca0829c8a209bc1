"""The process of `tidegate cluster keep`: holds an embedded cluster, lends it to one program at a time, and ends when none has come for long.

    STARTING ─▶ FREE ─▶ LENT ─┬─ the program's jobs are over ─▶ FREE
                  │           └─ a job is left, or the JobManager is lost: closed, as an embedded cluster is when its program ends ─▶ STARTING
                  └─ idle for tidegate.warm-cluster.idle-timeout, SIGTERM or `keep --stop` ─▶ the process ends, and its cluster with it

A program that is killed has ended as well: the kernel closes its connection, and tells the end of its process.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from tidegate.cli.embedded.local_cluster import LocalCluster
from tidegate.cli.embedded.own_files import completed_in, tell_kept
from tidegate.cli.embedded.warm.facts import Facts, Standing, Use
from tidegate.cli.embedded.warm.meeting import ANSWER_LIMIT_S, SOCKET, Channel, check_peer, listen, lock_of
from tidegate.cli.embedded.warm.output import CopiedOutput
from tidegate.cli.options import client_at
from tidegate.model.errors import ErrorInfo, ExternalError, Misuse, TidegateError
from tidegate.model.values import JsonObject

OUTPUT_FILE = "output.log"
_LOOK_S = 0.2
"""How often the keeper looks whether its time is over, in seconds. Chosen, not measured."""
_log = logging.getLogger(__name__)


class Keeper:
    """Keeps one cluster and lends it. ``settings``: the options of its processes."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str], slots: int, idle_timeout_ms: int, facts: Facts
    ) -> None:
        self._directory = directory
        self._definitions = [f"{key}={text}" for key, text in settings.items()]
        self._slots = slots
        self._idle_timeout_ms = idle_timeout_ms
        self._facts = facts
        self._lock = threading.Lock()
        self._cluster: LocalCluster | None = None
        self._holder = 0
        self._idle_since = time.monotonic()
        self._left_by_killed: list[Path] = []
        self._told: set[Path] = set()
        self._ending = threading.Event()

    def run(self, on_ready: Callable[[JsonObject], None]) -> None:
        """Keeps the cluster until its end. ``on_ready`` is called when programs may come. Raises the error that keeps it from starting."""
        lock = lock_of(self._directory)
        if lock is None:
            raise Misuse(f"another warm cluster is kept in {self._directory} already")
        signal.signal(signal.SIGTERM, lambda number, frame: self._ending.set())
        signal.signal(signal.SIGINT, lambda number, frame: self._ending.set())
        self._pipes = _print_into_pipes()
        with open(self._directory / OUTPUT_FILE, "ab") as log:
            self._log_descriptor = log.fileno()
            self._copied: CopiedOutput | None = CopiedOutput(self._pipes, (log.fileno(), log.fileno()))
            try:
                self._cluster = LocalCluster(self._definitions, self._slots)
                with listen(self._directory) as listener:
                    threading.Thread(target=self._accept, args=(listener,), name="warm-accept", daemon=True).start()
                    on_ready(self._standing().to_json())
                    self._watch()
            finally:
                (self._directory / SOCKET).unlink(missing_ok=True)
                if self._cluster is not None:
                    self._cluster.close()
        os.close(lock)

    def _watch(self) -> None:
        """Returns when the keeper has to end; starts the cluster anew when it was closed or is lost."""
        while not self._ending.wait(_LOOK_S):
            with self._lock:
                is_idle = not self._holder
                if is_idle and time.monotonic() - self._idle_since > self._idle_timeout_ms / 1000:
                    _log.info("no program came for %d ms", self._idle_timeout_ms)
                    self._ending.set()
                    return
                lost = self._cluster
                if not is_idle or (lost is not None and lost.is_alive()):
                    continue
                self._cluster = None
            if lost is not None:
                _log.warning("the JobManager is lost; the cluster is started anew")
                lost.close()
            cluster = LocalCluster(self._definitions, self._slots)
            with self._lock:
                self._cluster, self._idle_since = cluster, time.monotonic()

    # ---- connections -------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # it was closed
                return
            threading.Thread(target=self._serve, args=(connection,), name="warm-program", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Answers one program until it is gone."""
        with connection:
            try:
                pid = check_peer(connection)
                connection.settimeout(ANSWER_LIMIT_S)
                channel = Channel(connection)
                channel.send(self._standing().to_json())
                self._answer_all(channel, pid)
            except (OSError, ExternalError) as error:
                _log.info("a connection ended: %s", error)

    def _answer_all(self, channel: Channel, pid: int) -> None:
        holds = False
        try:
            while (request := _next_request(channel, pid)) is not None:
                what = request.get("what")
                if what == "borrow":
                    holds = self._lend(channel, int(request["pid"]))
                elif holds and what == "add-slots":
                    channel.send(self._add_slots(int(request["slots"])))
                elif holds and what == "is-alive":
                    channel.send({"alive": self._cluster is not None and self._cluster.is_alive()})
                elif holds and what == "give-back":
                    self._clear()
                    channel.send({})
        finally:
            if holds:
                self._left_by_killed += self._clear()
                self._take_back()

    def _standing(self) -> Standing:
        with self._lock:
            use = Use.STARTING if self._cluster is None or self._ending.is_set() else Use.FREE
            use = Use.LENT if self._holder else use
            slots = 0 if self._cluster is None else self._cluster.slots
            return Standing(os.getpid(), use, self._holder, slots, self._idle_timeout_ms, self._facts)

    def _lend(self, channel: Channel, pid: int) -> bool:
        """Lends the cluster to a program, with what its processes print; returns whether it was free."""
        with self._lock:
            cluster = self._cluster
            is_free = not self._holder and cluster is not None and cluster.is_alive() and not self._ending.is_set()
            if is_free:
                self._holder = pid
        if not is_free or cluster is None:
            channel.send({"lent": False})
            return False
        _log.info("lent to pid %d", pid)
        if self._copied is not None:
            self._copied.close()
            self._copied = None
        left, self._left_by_killed = self._left_by_killed, []
        answer = {
            "lent": True,
            "address": cluster.address,
            "slots": cluster.slots,
            "left": [str(path) for path in left],
        }
        try:
            channel.send(answer, self._pipes)
        except OSError:
            self._left_by_killed += left
            self._take_back()
            raise
        return True

    def _add_slots(self, slots: int) -> JsonObject:
        cluster = self._cluster
        if cluster is None:
            return {"error": asdict(ErrorInfo.of(ExternalError("the warm cluster is ending")))}
        try:
            cluster.add_slots(slots)
        except TidegateError as error:
            return {"error": asdict(ErrorInfo.of(error))}
        return {"slots": cluster.slots}

    def _clear(self) -> list[Path]:
        """Closes a cluster on which a job was left, and prints which checkpoints stay; returns those of jobs that were left."""
        cluster = self._cluster
        if cluster is None:
            return []
        if self._is_clear(cluster):
            kept = [path for path in completed_in(cluster.checkpoints) if path not in self._told]
            tell_kept(kept)
            self._told.update(kept)
            return []
        _log.info("a job was left: the cluster is closed")
        with self._lock:
            self._cluster = None
        return [path for path in cluster.close() if path not in self._told]

    def _is_clear(self, cluster: LocalCluster) -> bool:
        try:
            with client_at(cluster.configuration, cluster.address) as client:
                return not client.list_jobs(include_terminal=False)
        except TidegateError:
            return False

    def _take_back(self) -> None:
        _log.info("pid %d has ended", self._holder)
        self._copied = CopiedOutput(self._pipes, (self._log_descriptor, self._log_descriptor))
        with self._lock:
            self._holder, self._idle_since = 0, time.monotonic()


def _next_request(channel: Channel, pid: int) -> JsonObject | None:
    """Waits for the next request; returns ``None`` when the program has ended, also when a fork of it holds the connection open."""
    watched = [channel.connection.fileno()]
    program = -1
    if pid and hasattr(os, "pidfd_open"):
        with suppress(OSError):  # it has ended just now: the connection tells
            program = os.pidfd_open(pid)
            watched.append(program)
    try:
        poller = select.poll()
        for descriptor in watched:
            poller.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in poller.poll()]
        if program in ready and channel.connection.fileno() not in ready:
            return None
        return channel.receive()
    finally:
        if program >= 0:
            os.close(program)


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
