"""JobManagers that elect a leader in one object: clocks that run at their own rates and jump, requests that are late or lost or arrive after
they were given up, processes that are killed, stopped and cut off.

The machines are the real ones, ``Lease`` below ``Leadership``; the store is a register with compare-and-swap. Each leader counts: it adds one to an entry
again and again, and creates an entry for each number.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from functools import partial

from tests.sim.laws import Law, require
from tidegate.high_availability.object_store import lease
from tidegate.high_availability.object_store.ledger import Create, Ledger, Put
from tidegate.jobmanager.machines import leadership as lead
from tidegate.model.leadership import ResignationRequested

LEASE_MS, RENEW_MS, TIMEOUT_MS = 5_000, 1_000, 2_500
FAULTS_UNTIL_MS, LIMIT_MS = 60_000, 160_000
COUNT = "count"


class Register:
    """The object. ``history`` are the ledgers that it had."""

    def __init__(self) -> None:
        self.seen: lease.Seen | None = None
        self.history: list[Ledger] = []

    def swap(self, asked: lease.Swap) -> lease.Version | None:
        version = None if self.seen is None else self.seen.version
        if not self.fits(version, asked.expected):
            return None
        before = None if self.seen is None else self.seen.ledger
        self.seen = lease.Seen(asked.ledger, lease.Version(str(len(self.history))))
        self.history.append(asked.ledger)
        if before is not None:
            require(Law.TERMS, asked.ledger.term >= before.term, f"term {asked.ledger.term} after {before.term}")
            is_next = asked.ledger.term > before.term or asked.ledger.holder in ("", before.holder)
            require(Law.TERMS, is_next, f"{asked.ledger.holder} writes in term {before.term} of {before.holder}")
            lost = set(before.entries) - set(asked.ledger.entries)
            require(Law.LEDGER, not lost, f"{sorted(lost)} were there, and are gone in term {asked.ledger.term}")
        return self.seen.version

    def fits(self, version: lease.Version | None, expected: lease.Version | None) -> bool:
        return version == expected


class Process:
    """A JobManager: both machines, and what it does while it leads."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.lease = lease.Lease(name, LEASE_MS, RENEW_MS)
        self.leadership = lead.Leadership()
        self.rate = world.draw.choice((0.5, 1.0, 1.0, 2.0))
        self.offset_ms = world.draw.randint(0, 10**9)
        self.is_dead = False
        self.stopped_until_ms = self.cut_until_ms = 0
        self.led = 0
        """The term in which it acts; 0: it does not."""
        self._wake = 0
        self._numbers = itertools.count()
        self._requests: dict[int, tuple[int, int, bool]] = {}
        """Term and value of the changes that wait, and whether it is the increment."""
        world.at(0, partial(self.on, lease.Woken()))

    def now_ms(self) -> int:
        return int(self.offset_ms + self.world.now_ms * self.rate)

    def on(self, event: lease.LeaseEvent) -> None:
        if self.is_dead:
            return
        held_ms = self.stopped_until_ms - self.world.now_ms
        if held_ms > 0:
            self.world.at(held_ms, partial(self.on, event))
            return
        for command in self.lease.on(event, self.now_ms()):
            self._carry_out(command)
        self.lease.check_invariants()
        self.leadership.check_invariants()

    def _carry_out(self, command: lease.LeaseCommand) -> None:
        match command:
            case lease.Look() | lease.Swap():
                self.world.request(self, command)
            case lease.WakeMe():
                self._wake += 1
                self.world.at(int(command.delay_ms / self.rate) + 1, partial(self._woken, self._wake))
            case lease.Tell():
                self._lead(command.event)
            case lease.Done():
                term, value, is_count = self._requests.pop(command.number)
                require(
                    Law.OWN_CHANGES,
                    self.leadership.term in (0, term),
                    f"term {term} is told of a change in {self.leadership.term}",
                )
                if is_count:
                    self.world.counted(term, value)
                    self.world.at(self.world.draw.randint(1, 600), partial(self._count, term))
                else:
                    self.world.created(term, value, command.is_so)
            case lease.ChangeRefused():
                self.world.refused(self._requests.pop(command.number))
            case lease.ChangeUnknown():
                self._requests.pop(command.number)

    def _woken(self, number: int) -> None:
        if number == self._wake:
            self.on(lease.Woken())

    def _lead(self, event: lead.LeadershipEvent) -> None:
        for command in self.leadership.on(event, 0):
            match command:
                case lead.WaitForTurn():
                    self.world.at(1, partial(self.on, lease.LeadershipRequested(command.session)))
                case lead.GiveUpLock():
                    self.world.at(1, partial(self.on, lease.ReleaseRequested()))
                case lead.StartLeading():
                    self.led = command.term
                    self.world.begins(self, command.term)
                    self.world.at(1, partial(self._count, command.term))
                case lead.StopLeading():
                    self.led = 0

    def _count(self, term: int) -> None:
        """The next number, and an entry of it."""
        if self.led != term or self.is_dead:
            return
        value = int(self.lease.entries.get(COUNT, b"0")) + 1
        for change in (Create(f"number/{value}", f"{self.name} {term}".encode()), Put(COUNT, str(value).encode())):
            number = next(self._numbers)
            self._requests[number] = (term, value, isinstance(change, Put))
            self.on(lease.ChangeRequested(number, term, change))

    def resign(self) -> None:
        self._lead(ResignationRequested())
        self.world.at(TIMEOUT_MS, self.kill)

    def kill(self) -> None:
        if self.is_dead:
            return
        self.is_dead = True
        self.led = 0
        self.world.start()


class World:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now_ms = 0
        self.register = Register()
        self.faults: list[str] = []
        self.terms: dict[int, str] = {}
        self.last_counted_ms = 0
        self._counted: dict[int, int] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._names = itertools.count(1)
        self.processes: list[Process] = []
        for _ in range(3):
            self.start()

    def start(self) -> None:
        self.processes = [process for process in self.processes if not process.is_dead]
        self.processes.append(Process(self, f"jm{next(self._names)}"))

    def at(self, delay_ms: int, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + max(0, delay_ms), next(self._order), call))

    @property
    def is_rough(self) -> bool:
        return self.now_ms < FAULTS_UNTIL_MS

    # ---- the bucket --------------------------------------------------------------------------------------------------

    def request(self, who: Process, asked: lease.Look | lease.Swap) -> None:
        """Answered once: by what the store says, or, after a time, by nothing; it may still arrive then."""
        answered: list[bool] = []

        def answer(event: lease.LeaseEvent) -> None:
            if not answered:
                answered.append(True)
                who.on(event)

        def arrive() -> None:
            if self._is_cut(who):
                return
            event = self._done(asked)
            if not self._is_cut(who):
                self.at(self._delay(), partial(answer, event))

        self.at(self._delay(), arrive)
        self.at(TIMEOUT_MS, partial(answer, lease.NotAnswered()))

    def _done(self, asked: lease.Look | lease.Swap) -> lease.LeaseEvent:
        if isinstance(asked, lease.Look):
            return lease.Looked(self.register.seen)
        version = self.register.swap(asked)
        return lease.SwapRefused() if version is None else lease.Swapped(version)

    def _delay(self) -> int:
        if not self.is_rough or self.draw.random() < 0.9:
            return self.draw.choice((1, 5, 20, 100))
        return self.draw.randint(500, 9_000)

    def _is_cut(self, who: Process) -> bool:
        return self.now_ms < who.cut_until_ms or (self.is_rough and self.draw.random() < 0.05)

    # ---- laws --------------------------------------------------------------------------------------------------------

    def begins(self, who: Process, term: int) -> None:
        other = self.terms.setdefault(term, who.name)
        require(Law.ONE_LEADER, other == who.name, f"{who.name} and {other} lead in term {term}")

    def counted(self, term: int, value: int) -> None:
        """An acknowledged increment is in the ledger, and stays, and is of one writer alone. The answer may come late."""
        require(
            Law.LEDGER,
            value not in self._counted,
            f"{value} was counted in terms {self._counted.get(value)} and {term}",
        )
        self._counted[value] = term
        self.last_counted_ms = self.now_ms
        found = self.register.seen
        assert found is not None
        require(
            Law.LEDGER,
            int(found.ledger.entries.get(COUNT, b"0")) >= value,
            f"{value} was acknowledged, and is not there",
        )

    def refused(self, asked: tuple[int, int, bool]) -> None:
        """What is said not to have happened has not."""
        term, value, is_count = asked
        wrote = [ledger for ledger in self.register.history if ledger.term == term]
        name, content = (COUNT, str(value).encode()) if is_count else (f"number/{value}", b" %d" % term)
        require(
            Law.LEDGER,
            all(not ledger.entries.get(name, b"").endswith(content) for ledger in wrote),
            f"{name} was refused in term {term}, and is there",
        )

    def created(self, term: int, value: int, is_so: bool) -> None:
        """An earlier term may have created the entry of a number, and was deposed before it had counted it."""
        require(Law.LEDGER, is_so or self._counted.get(value, term) >= term, f"term {term} counts {value} again")

    # ---- a run -------------------------------------------------------------------------------------------------------

    def fault(self) -> None:
        if not self.is_rough:
            return
        self.at(self.draw.randint(500, 8_000), self.fault)
        leaders = [process for process in self.processes if process.led] or self.processes
        who = self.draw.choice(leaders if self.draw.random() < 0.8 else self.processes)
        kind = self.draw.choice(("kill", "stop", "stop", "cut", "cut", "jump", "resign"))
        self.faults.append(kind)
        if kind == "kill":
            who.kill()
        elif kind == "stop":
            who.stopped_until_ms = self.now_ms + self.draw.randint(LEASE_MS, 3 * LEASE_MS)
        elif kind == "cut":
            who.cut_until_ms = self.now_ms + self.draw.randint(500, 3 * LEASE_MS)
        elif kind == "jump":
            who.offset_ms += self.draw.choice((1_000, LEASE_MS, 10 * LEASE_MS))
        else:
            who.resign()

    def run(self) -> World:
        self.at(self.draw.randint(0, 10_000), self.fault)
        while self._events and self.now_ms < LIMIT_MS:
            self.now_ms, _, call = heapq.heappop(self._events)
            call()
            if self.now_ms > FAULTS_UNTIL_MS + 10 * LEASE_MS:
                break
        require(
            Law.LEADERSHIP,
            self.last_counted_ms > FAULTS_UNTIL_MS + 5 * LEASE_MS,
            f"nobody has counted since {self.last_counted_ms} ms",
        )
        return self
