"""Lends a cluster to one program at a time, and answers the requests of programs over their connections.

    {"what": "borrow", "pid": 41}     ─▶ {"lent": true, "address": ..., "slots": ..., "left": [...]} with two pipes, or {"lent": false, "why": ...}
    {"what": "is-alive"}              ─▶ {"alive": true}             this and the following only for the program that has borrowed it
    {"what": "add-slots", "slots": 2} ─▶ {"slots": 4}
    {"what": "give-back"}             ─▶ {}
    anything else                     ─▶ {"error": {...}}, and the connection goes on

    STARTING ─▶ FREE ─▶ LENT ─┬─ the program's jobs are over ─▶ FREE
                              └─ a job is left, or the JobManager is lost: the cluster is closed ─▶ STARTING

The connection is the loan: it ends with the program, whichever way that ends.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from tidegate.cli.embedded.own_files import completed_in, tell_kept
from tidegate.cli.embedded.warm.facts import Facts, Standing, Use
from tidegate.cli.embedded.warm.meeting import ANSWER_LIMIT_S, Channel, check_peer
from tidegate.cli.embedded.warm.output import CopiedOutput
from tidegate.model.errors import ErrorInfo, ExternalError, Misuse, TidegateError
from tidegate.model.values import JsonObject

_LOOK_S = 0.2
"""How often it is checked whether the time is over, in seconds. Chosen, not measured."""
_SHOWN = 200
"""How many characters of a request an error shows. Chosen, not measured."""
_NOT_BORROWED = "this program has not borrowed the warm cluster"
_log = logging.getLogger(__name__)


class KeptCluster(Protocol):
    """A cluster that can be lent, such as ``LocalCluster``."""

    address: str

    @property
    def slots(self) -> int:
        """The number of slots of all TaskManagers together."""

    @property
    def checkpoints(self) -> Path:
        """The directory of checkpoints of jobs that name no other."""

    def is_alive(self) -> bool:
        """Tells whether the cluster takes jobs."""

    def has_jobs(self) -> bool:
        """Tells whether a job runs, or the JobManager does not say so."""

    def add_slots(self, slots: int) -> None:
        """Starts a TaskManager with this many slots. Raises the error that keeps it from starting."""

    def close(self) -> list[Path]:
        """Stops the cluster; returns the checkpoints that stay, after printing them."""


class Lending:
    """A cluster and the program that has borrowed it. ``pipes``: what the processes of the cluster print; ``log``: where it goes while the cluster is free."""

    def __init__(
        self,
        start: Callable[[], KeptCluster],
        pipes: tuple[int, int],
        log: int,
        idle_timeout_ms: int,
        facts: Facts,
        ending: threading.Event,
    ) -> None:
        """Starts the cluster. ``ending``: set when it must not be lent from then on. Raises the error that keeps it from starting."""
        self._start = start
        self._pipes = pipes
        self._log_descriptor = log
        self._idle_timeout_ms = idle_timeout_ms
        self._facts = facts
        self._lock = threading.Lock()
        self._ending = ending
        self._holder = 0
        self._left_by_killed: list[Path] = []
        self._told: set[Path] = set()
        self._copied: CopiedOutput | None = None
        self._copy_into_the_log()
        self._started_ms = _now_ms()
        self._cluster: KeptCluster | None = start()
        self._free_since()

    def close(self) -> None:
        """Stops the cluster."""
        cluster = self._cluster
        if cluster is not None:
            cluster.close()

    def watch(self) -> None:
        """Returns at the end: when ``ending`` is set, or no program came for long. Starts the cluster anew when it was closed or is lost."""
        while not self._ending.wait(_LOOK_S):
            with self._lock:
                is_idle = not self._holder
                if is_idle and time.monotonic() - self._idle_since_s > self._idle_timeout_ms / 1000:
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
            cluster = self._start()
            with self._lock:
                self._cluster = cluster
                self._free_since()

    def standing(self) -> Standing:
        """Returns what is sent to a program before it asks."""
        with self._lock:
            return self._standing()

    def serve(self, connection: socket.socket) -> None:
        """Answers one program until it is gone."""
        with connection:
            try:
                pid = check_peer(connection)
                connection.settimeout(ANSWER_LIMIT_S)
                channel = Channel(connection)
                channel.send(self.standing().to_json())
                self._answer_all(channel, pid)
            except (OSError, ExternalError) as error:
                _log.info("a connection ended: %s", error)

    def _answer_all(self, channel: Channel, pid: int) -> None:
        holds = False
        try:
            while (request := _next_request(channel, pid)) is not None:
                match request:
                    case {"what": "borrow", "pid": int() as said} if not holds:
                        holds = self._lend(channel, pid or said)
                    case {"what": "add-slots", "slots": int() as slots} if holds:
                        channel.send(self._add_slots(slots))
                    case {"what": "is-alive"} if holds:
                        channel.send({"alive": self._cluster is not None and self._cluster.is_alive()})
                    case {"what": "give-back"} if holds:
                        self._give_back(channel)
                    case {"what": "add-slots" | "is-alive" | "give-back"} if not holds:
                        channel.send(_refused(_NOT_BORROWED))
                    case _:
                        channel.send(_refused(f"the warm cluster cannot answer the request {str(request)[:_SHOWN]}"))
        finally:
            if holds:
                self._take_back()

    def _standing(self) -> Standing:
        cluster = self._cluster
        use = Use.STARTING if cluster is None else Use.FREE
        use = Use.ENDING if self._ending.is_set() else use
        use = Use.LENT if self._holder else use
        slots = 0 if cluster is None else cluster.slots
        own = (os.getpid(), use, self._holder, slots, self._idle_timeout_ms, self._facts)
        return Standing(*own, self._started_ms, self._since_ms)

    def _lend(self, channel: Channel, pid: int) -> bool:
        """Lends the cluster to a program, with what its processes print; returns whether it was free."""
        with self._lock:
            cluster, standing = self._cluster, self._standing()
            is_free = standing.use is Use.FREE and cluster is not None and cluster.is_alive()
            if is_free:
                self._holder, self._since_ms = pid, _now_ms()
        if not is_free or cluster is None:
            channel.send({"lent": False, "why": standing.why_not_free() or "its JobManager is lost"})
            return False
        _log.info("lent to pid %d", pid)
        left, self._left_by_killed = self._left_by_killed, []
        answer = {
            "lent": True,
            "address": cluster.address,
            "slots": cluster.slots,
            "left": [str(path) for path in left],
        }
        try:
            if self._copied is not None:
                self._copied.close()
                self._copied = None
            channel.send(answer, self._pipes)
        except BaseException:
            self._left_by_killed += left
            self._take_back()
            raise
        return True

    def _add_slots(self, slots: int) -> JsonObject:
        cluster = self._cluster
        if cluster is None:
            return _refused("the warm cluster is ending")
        try:
            cluster.add_slots(slots)
        except TidegateError as error:
            return {"error": asdict(ErrorInfo.of(error))}
        return {"slots": cluster.slots}

    def _give_back(self, channel: Channel) -> None:
        """Clears the cluster while the program still copies what is printed, and answers."""
        left = self._clear()
        try:
            channel.send({})
        except OSError:  # it was killed meanwhile, so it has printed none of it
            self._left_by_killed += left
            raise

    def _take_back(self) -> None:
        """Makes the cluster free again when its program is gone; one on which it has left a job is closed."""
        _log.info("pid %d has ended", self._holder)
        try:
            # First: a killed program has left its pipes full, perhaps, and into a full pipe neither this process nor those of the cluster can write.
            self._copy_into_the_log()
            self._left_by_killed += self._clear()
        finally:
            with self._lock:
                self._holder = 0
                self._free_since()

    def _clear(self) -> list[Path]:
        """Closes a cluster on which a job was left, and prints which checkpoints stay; returns those of jobs that were left."""
        cluster = self._cluster
        if cluster is None:
            return []
        if not cluster.has_jobs():
            kept = [path for path in completed_in(cluster.checkpoints) if path not in self._told]
            tell_kept(kept)
            self._told.update(kept)
            return []
        _log.info("a job was left: the cluster is closed")
        with self._lock:
            self._cluster = None
        return [path for path in cluster.close() if path not in self._told]

    def _free_since(self) -> None:
        self._since_ms, self._idle_since_s = _now_ms(), time.monotonic()

    def _copy_into_the_log(self) -> None:
        self._copied = CopiedOutput(self._pipes, (self._log_descriptor, self._log_descriptor))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _refused(why: str) -> JsonObject:
    return {"error": asdict(ErrorInfo.of(Misuse(why)))}


def _next_request(channel: Channel, pid: int) -> JsonObject | None:
    """Waits for the next request; returns ``None`` when the program has ended, also when a fork of it holds the connection open."""
    if channel.has_message:
        return channel.receive()
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
