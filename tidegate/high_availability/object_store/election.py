"""Leader election in a bucket: one thread executes the requests of the lease machine and answers the callers.

<storageDir>/<cluster-id>/ledger             who leads, and all entries
<storageDir>/<cluster-id>/standbys/<holder>  where one that waits is; written again as long as it does
"""

from __future__ import annotations

import contextlib
import logging
import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from tidegate.high_availability.object_store import lease
from tidegate.high_availability.object_store.bucket import Bucket, open_bucket
from tidegate.high_availability.object_store.codec import decode_ledger, encode_ledger
from tidegate.high_availability.object_store.conditions import check_conditions
from tidegate.high_availability.object_store.ledger import LEADER, Change, Create, Delete, Put, names_below
from tidegate.high_availability.port import Deposed, Entries, Unavailable, encode_contact, encode_leader
from tidegate.model.errors import TidegateError
from tidegate.model.leadership import Contact, ElectionEvent, Leader, LockAcquired
from tidegate.wire.versions import VERSION

LEDGER, STANDBYS = "ledger", "standbys"
_NOTHING = "nothing"
"""The name of an entry that does not exist: removing it writes the ledger unchanged, if this process still leads."""
_ANSWER_S = 5.0
"""The timeout of one change, in seconds, as for ZooKeeper; afterwards the call is repeated, which is harmless."""

_LITTER = timedelta(hours=1)
"""The age from which a standby's object is removed: far more than any lease."""

_log = logging.getLogger("jobmanager")


@dataclass(frozen=True, slots=True)
class BucketSettings:
    """The settings of the driver. ``url``: of the cluster's folder. Times are milliseconds."""

    url: str
    lease_ms: int = 5_000
    renew_ms: int = 1_000

    def open(self) -> Bucket:
        """Opens the bucket with a timeout of half a lease for each request, which leaves time for another one. Raises ``ConfigurationError``."""
        return open_bucket(self.url, self.lease_ms / 2_000)


def read_ledger(bucket: Bucket) -> lease.Seen | None:
    """Reads the ledger. Raises ``Unavailable``, ``CorruptData`` or ``VersionMismatch``."""
    found = bucket.read(LEDGER)
    return None if found is None else lease.Seen(decode_ledger(found.content, bucket.place(LEDGER)), found.version)


class BucketElection:
    """The leader election of one JobManager in a bucket."""

    def __init__(self, settings: BucketSettings) -> None:
        self._settings = settings
        self._bucket = settings.open()
        self._holder = secrets.token_hex(8)
        self._lease = lease.Lease(self._holder, settings.lease_ms, settings.renew_ms)
        self._contact = Contact("")
        self._tell: Callable[[ElectionEvent], None] = lambda event: None
        self._events: queue.Queue[lease.LeaseEvent | None] = queue.Queue()
        self._waiting: dict[int, Future[bool]] = {}
        self._number_lock = threading.Lock()
        self._last_number = 0
        self._gave_up: queue.Queue[None] = queue.Queue()
        self._due_s = 0.0
        self._shown_s: float | None = None
        self._thread: threading.Thread | None = None

    @property
    def lease_ms(self) -> int:
        return self._settings.lease_ms

    def seek(self, contact: Contact, tell: Callable[[ElectionEvent], None]) -> None:
        """Starts the election. Raises ``TidegateError`` where the bucket does not answer, does not honour conditions, or holds a ledger that this
        version cannot read."""
        self._contact, self._tell = contact, tell
        read_ledger(self._bucket)
        check_conditions(self._bucket)
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)
        self._thread.start()

    def wait_for_turn(self, session: int) -> None:
        self._events.put(lease.LeadershipRequested(session))

    def give_up(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            return
        self._events.put(lease.ReleaseRequested())
        with contextlib.suppress(queue.Empty):
            self._gave_up.get(timeout=_ANSWER_S)

    def publish(self, term: int, contact: Contact) -> None:
        self.entries(term).put(LEADER, encode_leader(Leader(term, contact)))

    def entries(self, term: int) -> BucketEntries:
        return BucketEntries(self, term)

    def close(self) -> None:
        self.give_up()
        self._events.put(None)
        if self._thread is not None:
            self._thread.join(_ANSWER_S)

    # ---- for the entries ---------------------------------------------------------------------------------------------

    def get(self, name: str) -> bytes | None:
        return self._lease.entries.get(name)

    def names(self, below: str) -> list[str]:
        return names_below(self._lease.entries, below)

    def change(self, term: int, change: Change) -> bool:
        """Changes an entry as the leader of ``term``. Returns whether the entries are as the change asks for. Raises ``Deposed`` or ``Unavailable``."""
        waiting: Future[bool] = Future()
        with self._number_lock:
            self._last_number += 1
            number = self._last_number
            self._waiting[number] = waiting
        self._events.put(lease.ChangeRequested(number, term, change))
        try:
            return waiting.result(_ANSWER_S)
        except TimeoutError:
            raise Unavailable(f"{self._bucket.place(LEDGER)} was not written within {_ANSWER_S:g} s") from None

    # ---- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._due_s = time.monotonic()
        while True:
            try:
                event = self._events.get(timeout=max(0.0, self._due_s - time.monotonic()))
            except queue.Empty:
                event = lease.Woken()
                self._due_s = time.monotonic() + self._settings.renew_ms / 1000
            if event is None:
                self._hide()
                return
            self._on(event)

    def _on(self, event: lease.LeaseEvent) -> None:
        events = deque([event])
        while events:
            for command in self._lease.on(events.popleft(), int(time.monotonic() * 1000)):
                answer = self._carried_out(command)
                if answer is not None:
                    events.append(answer)
        self._show()

    def _carried_out(self, command: lease.LeaseCommand) -> lease.LeaseEvent | None:
        match command:
            case lease.Look():
                return self._looked()
            case lease.Swap():
                return self._swapped(command)
            case lease.WakeMe():
                self._due_s = time.monotonic() + command.delay_ms / 1000
            case lease.Tell():
                self._tell(command.event)
                if isinstance(command.event, LockAcquired):
                    self._sweep()
            case lease.Done():
                self._waiting.pop(command.number).set_result(command.is_so)
            case lease.ChangeRefused():
                self._waiting.pop(command.number).set_exception(
                    Deposed(f"this JobManager leads no more: {command.reason}")
                )
            case lease.ChangeUnknown():
                self._waiting.pop(command.number).set_exception(
                    Unavailable(f"it is not known whether a change was made in time: {command.reason}")
                )
            case lease.GaveUp():
                self._gave_up.put(None)
            case _:
                assert_never(command)
        return None

    def _looked(self) -> lease.LeaseEvent:
        try:
            return lease.Looked(read_ledger(self._bucket))
        except Unavailable as error:
            return lease.NotAnswered(error.message)
        except TidegateError as error:
            _log.error("%s", error.message)
            return lease.NotAnswered(error.message)

    def _swapped(self, requested: lease.Swap) -> lease.LeaseEvent:
        try:
            version = self._bucket.write(LEDGER, encode_ledger(requested.ledger, VERSION), requested.expected)
        except Unavailable as error:
            return lease.NotAnswered(error.message)
        return lease.SwapRefused() if version is None else lease.Swapped(version)

    # ---- for those who look for standbys -----------------------------------------------------------------------------

    def _show(self) -> None:
        """Writes the address of this process once per lease while it is a standby; removes it otherwise."""
        if self._lease.state is not lease.LeaseState.IN_LINE:
            self._hide()
            return
        now_s = time.monotonic()
        if self._shown_s is not None and now_s - self._shown_s < self._settings.lease_ms / 1000:
            return
        self._shown_s = now_s
        with contextlib.suppress(Unavailable):
            self._bucket.put(f"{STANDBYS}/{self._holder}", encode_contact(self._contact))

    def _sweep(self) -> None:
        """Removes the objects of standbys that were killed: live ones write theirs again."""
        with contextlib.suppress(Unavailable):
            ledger = self._bucket.read(LEDGER)
            for name, modified in self._bucket.names(STANDBYS).items():
                if ledger is not None and ledger.modified - modified > _LITTER:
                    self._bucket.delete(f"{STANDBYS}/{name}")

    def _hide(self) -> None:
        if self._shown_s is None:
            return
        self._shown_s = None
        with contextlib.suppress(Unavailable):
            self._bucket.delete(f"{STANDBYS}/{self._holder}")


class BucketEntries(Entries):
    """Entries of the ledger for the leader of one term. Reads its own copy, which no other process changes while it leads."""

    excludes_others = False

    def __init__(self, election: BucketElection, term: int) -> None:
        self._election = election
        self._term = term

    def get(self, name: str) -> bytes | None:
        return self._election.get(name)

    def names(self, below: str) -> list[str]:
        return self._election.names(below)

    def create(self, name: str, value: bytes) -> bool:
        return self._election.change(self._term, Create(name, value))

    def put(self, name: str, value: bytes) -> None:
        self._election.change(self._term, Put(name, value))

    def delete(self, name: str) -> None:
        self._election.change(self._term, Delete(name))

    def check_lead(self) -> None:
        self._election.change(self._term, Delete(_NOTHING))
