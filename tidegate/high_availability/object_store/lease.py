"""The state machine of one JobManager that elects a leader by compare-and-swap of one object, and changes that object.

                LeadershipRequested             Looked: no leader, or its lease is over           Swapped
    WATCHING ───────────────▶ IN_LINE ─────────────────────────────────────▶ CLAIMING ─────────▶ LEADING
        ▲                        ▲                                              │                   │
        │                        └──────── SwapRefused, NotAnswered ────────────┘                   │
        └─────────────────── Looked: another term; ReleaseRequested: released ───────────────────────────┘

Laws: a change counts when its swap was answered, or when a look shows the ledger of this term with it; a swap without an answer is followed by a look
before anything else; terms only grow, since each is one more than that of the ledger which its claim replaces; what is asked for in a term is never done in
another one.

Safety is the store's compare-and-swap alone. Time decides only how long others wait: each measures with its own clock for how long the ledger has
not changed, so clocks need not agree, and one that runs wrong costs a change of leaders at most. Kubernetes' leader election measures in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar, assert_never

from tidegate.high_availability.object_store.ledger import Change, Ledger, change, claimed, released, renewed
from tidegate.model.leadership import Connected, ElectionEvent, LockAcquired, Lost, Suspended


@dataclass(frozen=True, slots=True)
class Version:
    """The version of an object, as its store names it."""

    e_tag: str | None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of reading the ledger, with its version."""

    ledger: Ledger
    version: Version


# ---- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Woken:
    """Event: the time of the last ``WakeMe`` has come."""


@dataclass(frozen=True, slots=True)
class Looked:
    """Event: the ledger was read; ``None``: it does not exist."""

    seen: Seen | None


@dataclass(frozen=True, slots=True)
class Swapped:
    """Event: a swap succeeded and is durable, with this version."""

    version: Version


@dataclass(frozen=True, slots=True)
class SwapRefused:
    """Event: a swap was refused since the object has another version; after a repeated request, this process may have written it itself."""


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """Event: a request got no answer. A swap may have happened, or may happen later."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class LeadershipRequested:
    """Event: this JobManager wants to lead. ``session``: names the request in the events that follow."""

    session: int


@dataclass(frozen=True, slots=True)
class ReleaseRequested:
    """Event: give up waiting for the lead, or the lead."""


@dataclass(frozen=True, slots=True)
class ChangeRequested:
    """Event: a change was requested. Each number is used once."""

    number: int
    term: int
    change: Change


LeaseEvent = (
    Woken | Looked | Swapped | SwapRefused | NotAnswered | LeadershipRequested | ReleaseRequested | ChangeRequested
)


# ---- commands --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """Command: read the ledger."""


@dataclass(frozen=True, slots=True)
class Swap:
    """Command: write the ledger if the object has the expected version; ``None``: if it does not exist."""

    ledger: Ledger
    expected: Version | None


@dataclass(frozen=True, slots=True)
class WakeMe:
    """Command: wake the machine later; replaces the previous one."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class Tell:
    """Command: pass an event of the election on."""

    event: ElectionEvent


@dataclass(frozen=True, slots=True)
class Done:
    """Command: the change is durable. ``is_so``: the entries are as it asked for."""

    number: int
    is_so: bool


@dataclass(frozen=True, slots=True)
class ChangeRefused:
    """Command: the change was refused, and will not happen, since another process leads."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class ChangeUnknown:
    """Command: the lead ended after the change was sent: it may have happened."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class GaveUp:
    """Command: the lead was given up; others may lead."""


LeaseCommand = Look | Swap | WakeMe | Tell | Done | ChangeRefused | ChangeUnknown | GaveUp


class LeaseState(Enum):
    """The states of the machine, as drawn above."""

    WATCHING = "WATCHING"
    IN_LINE = "IN_LINE"
    CLAIMING = "CLAIMING"
    LEADING = "LEADING"


S = LeaseState
R = TypeVar("R", Look, Swap)
_RESIGNED = "this JobManager has given up its lead"


class Watch:
    """Measures for how long a ledger has not changed, by this process's clock."""

    def __init__(self) -> None:
        self._mark: tuple[int, int, str] | None = None
        self._since_ms = 0

    def left_ms(self, ledger: Ledger | None, now_ms: int) -> int:
        """Returns the ms until the lease of a ledger ends, as far as this process has watched it; 0 when there is no leader."""
        if ledger is None or not ledger.holder:
            return 0
        if ledger.mark != self._mark:
            self._mark, self._since_ms = ledger.mark, now_ms
        return max(0, self._since_ms + ledger.lease_ms - now_ms)


class Lease:
    """The election machine. At most one request is in progress: a look or a swap, each answered by one event."""

    def __init__(self, holder: str, lease_ms: int, renew_ms: int) -> None:
        """Begins in WATCHING. ``holder``: a name of this process that no other process has, even after a restart. ``lease_ms``: how long others wait without a
        change. ``renew_ms``: how often the leader writes.
        """
        self.state = S.WATCHING
        self.session = 0
        """0 until the store has answered."""
        self.term = 0
        self._holder, self._lease_ms, self._renew_ms = holder, lease_ms, renew_ms
        self._watch = Watch()
        self._sessions = 0
        self._highest = 0
        self._base: Seen | None = None
        """The ledger as it was last read or written."""
        self._in_flight: Look | Swap | None = None
        self._requested_ms = self._answered_ms = 0
        self._must_look = False
        self._is_suspended = False
        self._is_leaving = False
        self._pending: dict[int, Change] = {}
        self._sent: dict[int, bool] = {}
        self._doubtful: set[int] = set()
        """Those that wait and were sent, be it once."""

    @property
    def leads(self) -> bool:
        return self.state is S.LEADING

    @property
    def entries(self) -> Mapping[str, bytes]:
        return {} if self._base is None else self._base.ledger.entries

    def on(self, event: LeaseEvent, now_ms: int) -> Sequence[LeaseCommand]:
        match event:
            case Woken():
                return () if self._in_flight is not None else self._next(now_ms)
            case Looked():
                return self._on_looked(event.seen, now_ms)
            case Swapped():
                return self._on_swapped(event.version, now_ms)
            case SwapRefused():
                return self._on_refused(now_ms)
            case NotAnswered():
                return self._on_not_answered(event.reason, now_ms)
            case LeadershipRequested():
                if event.session != self.session or self.state is not S.WATCHING:
                    return ()
                self.state = S.IN_LINE
                return () if self._in_flight is not None else self._look(now_ms)
            case ReleaseRequested():
                return self._on_give_up(now_ms)
            case ChangeRequested():
                if not self.leads or event.term != self.term or self._is_leaving:
                    return (ChangeRefused(event.number, f"term {event.term} of the election has ended"),)
                self._pending[event.number] = event.change
                return () if self._in_flight is not None or self._must_look else self._write(now_ms)
            case _:
                assert_never(event)

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _next(self, now_ms: int) -> Sequence[LeaseCommand]:
        """Returns the next commands when no request is in progress."""
        if not self.leads or self._must_look:
            return self._look(now_ms)
        due_ms = self._requested_ms + self._renew_ms - now_ms
        if self._is_leaving or self._pending or due_ms <= 0:
            return self._write(now_ms)
        return (WakeMe(due_ms),)

    def _look(self, now_ms: int) -> Sequence[LeaseCommand]:
        return self._ask(Look(), now_ms)

    def _write(self, now_ms: int) -> Sequence[LeaseCommand]:
        """Writes all pending changes in one swap; without one it renews the lease."""
        if self._base is None:
            raise AssertionError(
                "error in tidegate, please report it: the leading JobManager was to write the cluster's record in the object store "
                "before it had read it; nothing was written"
            )
        if self._is_leaving:
            return self._ask(Swap(released(self._base.ledger), self._base.version), now_ms)
        entries = dict(self._base.ledger.entries)
        self._sent = {number: change(entries, requested) for number, requested in self._pending.items()}
        self._doubtful.update(self._sent)
        return self._ask(Swap(renewed(self._base.ledger, entries), self._base.version), now_ms)

    def _ask(self, request: Look | Swap, now_ms: int) -> Sequence[LeaseCommand]:
        self._in_flight, self._requested_ms = request, now_ms
        return (request,)

    # ---- answers -----------------------------------------------------------------------------------------------------

    def _take(self, kind: type[R]) -> R:
        """Takes the request in flight, a look at the ledger or a swap, which the current event answers: from now on none is in flight.

        Raises ``AssertionError`` when the request is not of this kind, or none was in flight.
        """
        request, self._in_flight = self._in_flight, None
        if not isinstance(request, kind):
            raise AssertionError(f"the bucket answered a {kind.__name__}, which this JobManager had not sent")
        return request

    def _on_looked(self, seen: Seen | None, now_ms: int) -> Sequence[LeaseCommand]:
        self._take(Look)
        commands = self._connected(now_ms)
        found = None if seen is None else seen.ledger
        self._highest = max(self._highest, 0 if found is None else found.term)
        self._base = seen
        if self.leads:
            self._must_look = False
            if found is not None and (found.term, found.holder) == (self.term, self._holder):
                return [*commands, *self._write(now_ms)]
            return [*commands, *self._lost(_reason_of(found), now_ms)]
        left_ms = self._watch.left_ms(found, now_ms)
        is_own = found is not None and found.holder == self._holder  # a claim without an answer, or what a release left
        if self.state is S.IN_LINE and (left_ms <= 0 or is_own):
            self.state = S.CLAIMING
            ledger = claimed(found, self._holder, self._highest + 1, self._lease_ms)
            return [*commands, *self._ask(Swap(ledger, None if seen is None else seen.version), now_ms)]
        return [*commands, WakeMe(min(self._renew_ms, max(1, left_ms)) if self.state is S.IN_LINE else self._renew_ms)]

    def _on_swapped(self, version: Version, now_ms: int) -> Sequence[LeaseCommand]:
        request = self._take(Swap)
        self._base = Seen(request.ledger, version)
        self._answered_ms = self._requested_ms
        if self.state is S.CLAIMING:
            self.state, self.term, self._highest = S.LEADING, request.ledger.term, request.ledger.term
            begun = [] if self._is_leaving else [Tell(LockAcquired(self.session, self.term))]
            return [*self._connected(now_ms), *begun, *self._next(now_ms)]
        if not request.ledger.holder:
            return self._left()
        done = [Done(number, is_so) for number, is_so in self._sent.items() if self._pending.pop(number, None)]
        self._doubtful.difference_update(self._sent)
        self._sent = {}
        return [*self._connected(now_ms), *done, *self._next(now_ms)]

    def _on_refused(self, now_ms: int) -> Sequence[LeaseCommand]:
        """Reads the ledger after a refused swap, to see whose it is."""
        self._take(Swap)
        self._sent = {}
        if self.state is S.CLAIMING:
            self.state = S.IN_LINE
            return self._left() if self._is_leaving else self._look(now_ms)
        return self._look(now_ms)

    def _on_not_answered(self, reason: str, now_ms: int) -> Sequence[LeaseCommand]:
        if self._in_flight is None:
            raise AssertionError("a request to the bucket is said to have failed, and this JobManager had sent none")
        self._in_flight, self._sent = None, {}
        commands: list[LeaseCommand] = []
        if self.session and not self._is_suspended and now_ms - self._answered_ms >= self._lease_ms // 2:
            self._is_suspended = True
            commands.append(Tell(Suspended(reason)))
        if self._is_leaving:
            return [*commands, *self._left()]  # its lease will be over
        self._must_look = self.leads
        if self.state is S.CLAIMING:
            self.state = S.IN_LINE
        return [*commands, WakeMe(max(1, self._renew_ms // 4))]

    def _connected(self, now_ms: int) -> Sequence[LeaseCommand]:
        self._answered_ms = max(self._answered_ms, self._requested_ms)
        if self.session and not self._is_suspended:
            return ()
        if not self.session:
            self._sessions += 1
            self.session = self._sessions
        self._is_suspended = False
        return (Tell(Connected(self.session)),)

    # ---- ends --------------------------------------------------------------------------------------------------------

    def _on_give_up(self, now_ms: int) -> Sequence[LeaseCommand]:
        if self.state in (S.WATCHING, S.IN_LINE):
            self.state = S.WATCHING
            return (GaveUp(),)
        self._is_leaving = True
        refused = self._refuse(_RESIGNED)
        return [*refused, *(() if self._in_flight is not None else self._next(now_ms))]

    def _left(self) -> Sequence[LeaseCommand]:
        self.state, self.term, self._is_leaving, self._must_look = S.WATCHING, 0, False, False
        return (GaveUp(), WakeMe(self._renew_ms))

    def _lost(self, reason: str, now_ms: int) -> Sequence[LeaseCommand]:
        refused = self._refuse(reason)
        left = (GaveUp(),) if self._is_leaving else ()
        self.state, self.term, self._is_leaving, self.session = S.WATCHING, 0, False, 0
        return [*refused, Tell(Lost(reason)), *left, *self._connected(now_ms), WakeMe(self._renew_ms)]

    def _refuse(self, reason: str) -> Sequence[LeaseCommand]:
        refused = [
            ChangeUnknown(number, reason) if number in self._doubtful else ChangeRefused(number, reason)
            for number in self._pending
        ]
        self._pending, self._sent, self._doubtful = {}, {}, set()
        return refused

    def check_invariants(self) -> None:
        """Checks the invariants of the machine between events. Raises ``AssertionError``."""
        assert self.leads == (self.term != 0), f"{self.state} in term {self.term}"
        assert self.leads or not self._pending, f"{self._pending} wait without a lead"
        assert set(self._sent) <= set(self._pending), "a change was sent that does not wait for an answer"
        assert not self._is_leaving or self.state in (S.CLAIMING, S.LEADING), (
            f"leaves what it does not have: {self.state}"
        )
        assert self.state is not S.CLAIMING or isinstance(self._in_flight, Swap), "claims without a request"


def _reason_of(found: Ledger | None) -> str:
    if found is None:
        return "the ledger of the cluster was removed from the bucket"
    return f"another JobManager leads, in term {found.term}"
