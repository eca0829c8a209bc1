"""Two JobManagers, a store, two TaskManagers and clients, in virtual time, and everything that can go wrong between them.

What a JobManager hears while it is stopped (SIGSTOP), it hears afterwards, in order and late. Its connection to the store can be cut, so that its
session expires without its knowledge; answers of the store are late or lost, whether or not it has done what was asked.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import defaultdict
from collections.abc import Callable
from functools import partial

from tests.sim.laws import Law, LawBroken, require
from tests.sim.leadership.history import History
from tests.sim.leadership.job_manager import PROGRAM, SUBMISSION, SimJobManager, SimTerm
from tests.sim.leadership.store import Store
from tests.sim.leadership.task_manager import SimTaskManager
from tidegate.high_availability.port import Deposed
from tidegate.jobmanager.machines.leadership import LeadershipState
from tidegate.model.fencing import make_generation
from tidegate.model.leadership import Connected, LockAcquired, Lost, Suspended

SESSION_MS, BEAT_MS, SUSPENDED_MS = 5_000, 1_000, 3_000
FAULTS_UNTIL_MS, LIMIT_MS = 60_000, 240_000
SOON_MS, POLLS = 20_000, 5
"""After the last fault has passed: the end of a session, and answers of the store that may take 8 s each. Then it is looked so often, once a second."""
CLIENTS = ("one", "two")


class World:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now_ms = 0
        self.interval_ms = self.draw.choice((200, 1_000, 4_000))
        self.store = Store(SESSION_MS)
        self.history = History()
        self.task_managers = [SimTaskManager(self.store.is_over), SimTaskManager(self.store.is_over)]
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._stopped_until: dict[str, int] = defaultdict(int)
        self._cut_until: dict[str, int] = defaultdict(int)
        self._dead: set[str] = set()
        self._accepted: list[str] = []
        self.faults: list[str] = []
        self.leaders: list[int] = []
        self.job_managers = [SimJobManager(self, f"jm{number}") for number in (1, 2)]

    # ---- time --------------------------------------------------------------------------------------------------------

    def at(self, delay_ms: int, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), call))

    def later(
        self,
        who: SimJobManager,
        delay_ms: int,
        call: Callable[[], object],
        unless: Callable[[], bool] = lambda: False,
    ) -> None:
        """``call`` in a process, when it runs by then."""

        def due() -> None:
            if who.name in self._dead or unless():
                return
            held_ms = self._stopped_until[who.name] - self.now_ms
            if held_ms > 0:
                self.at(held_ms, due)
                return
            call()

        self.at(delay_ms, due)

    def unique(self) -> int:
        return next(self._order)

    def delay(self) -> int:
        return self.draw.choice((1, 5, 20, 100)) if self.draw.random() < 0.95 else self.draw.randint(500, 8_000)

    def is_cut(self, who: SimJobManager) -> bool:
        return self.now_ms < self._cut_until[who.name] or self.draw.random() < (0.02 if self.is_rough else 0)

    @property
    def is_rough(self) -> bool:
        return self.now_ms < FAULTS_UNTIL_MS

    # ---- the store ---------------------------------------------------------------------------------------------------

    def send(self, who: SimJobManager, call: Callable[[], object]) -> None:
        """To the store, again until it arrives: the client library sees to that, as long as the session lives."""
        session = who.session

        def arrive() -> None:
            if not self.store.sessions[session].is_alive:
                return
            if self.is_cut(who):
                self.at(200, arrive)
                return
            call()

        self.at(self.delay(), arrive)

    def ask(self, who: SimJobManager, call: Callable[[], object], answer: Callable[[object], None]) -> None:
        """Once. ``answer`` gets the result, ``Deposed``, or ``TimeoutError`` where its outcome is unknown."""

        def arrive() -> None:
            if self.is_cut(who):
                self.later(who, 1_000, lambda: answer(TimeoutError()))
                return
            try:
                result: object = call()
            except Deposed as error:
                result = error
            is_lost = self.is_cut(who)
            self.later(who, self.delay(), lambda: answer(TimeoutError() if is_lost else result))

        self.at(self.delay(), arrive)

    def beat(self, who: SimJobManager) -> None:
        """The client library's own thread: it stops with the process."""
        self.later(who, BEAT_MS, lambda: self.beat(who))
        if not self.is_cut(who):
            self._heard(who)
        elif not who.is_suspended and self.now_ms - who.heard_ms > SUSPENDED_MS:
            who.is_suspended = True
            who.on(Suspended())

    def _heard(self, who: SimJobManager) -> None:
        lasts = bool(who.session) and self.store.beat(who.session, self.now_ms)
        who.heard_ms = self.now_ms
        if lasts and not who.is_suspended:
            return
        who.is_suspended = False
        if not lasts:
            if who.session:
                who.on(Lost())
            who.session = self.store.open(who.name, self.now_ms)
        who.on(Connected(who.session))

    def watch_lock(self) -> None:
        """The store tells who is first, late. And it expires sessions."""
        self.at(100, self.watch_lock)
        self.store.expire(self.now_ms)
        first = self.store.first()
        if first is None or first[1] in self.leaders:
            return
        session, term = first
        self.leaders.append(term)
        name = self.store.sessions[session].owner
        for owner in (jm for jm in self.job_managers if jm.name == name):
            self.later(owner, self.delay(), partial(owner.on, LockAcquired(session, term)))

    # ---- TaskManagers and clients ------------------------------------------------------------------------------------

    def tell(
        self,
        term: SimTerm,
        what: str,
        call: Callable[[SimTaskManager], bool],
        then: Callable[[], None],
        *,
        again: bool,
    ) -> None:
        """To every TaskManager, each until it has answered; a confirm also when its answer is lost."""
        left = set(range(len(self.task_managers)))

        def one(number: int) -> None:
            if term.is_over:
                return
            if again and term.owner.leadership.state is LeadershipState.PAUSED:
                self.later(term.owner, 100, lambda: one(number))
                return
            if again:
                is_leading = term.owner.term is term
                require(Law.DEPOSED, is_leading, f"{what} after the end of term {term.number}")
            is_lost = self.is_rough and self.draw.random() < 0.1
            self.at(self.delay(), lambda: arrived(number, is_lost))

        def arrived(number: int, is_lost: bool) -> None:
            is_answered = call(self.task_managers[number]) and not is_lost
            if not is_answered and not again and not is_lost:
                return  # refused: this leader has lost
            if not is_answered:
                self.later(term.owner, 200, lambda: one(number))
                return
            left.discard(number)
            if not left:
                self.later(term.owner, self.delay(), then, lambda: term.is_over)

        for number in sorted(left):
            one(number)

    def accepted(self, client: str) -> None:
        self._accepted.append(client)
        require(
            Law.RESULT,
            len(self._accepted) == 1,
            f"clients {self._accepted} were told that their job was accepted, under one id",
        )

    def submit(self) -> None:
        """Each client asks all that believe to lead, again and again; often just when the lead changes."""
        if self._accepted or self.store.has_ended:
            return
        self.at(self.draw.randint(50, 500), self.submit)
        leaders = [jm for jm in self.job_managers if jm.term is not None]
        if leaders and self.is_rough and self.draw.random() < 0.3:
            self.store.end(leaders[0].session)
        for owner in leaders:
            client = self.draw.choice(CLIENTS)
            self.later(owner, self.delay(), partial(_submit, owner, client))

    # ---- faults ------------------------------------------------------------------------------------------------------

    def fault(self) -> None:
        if not self.is_rough:
            return
        self.at(self.draw.randint(500, 12_000), self.fault)
        leaders = [jm for jm in self.job_managers if jm.term is not None] or self.job_managers
        who = self.draw.choice(leaders)
        kind = self.draw.choice(("kill", "stop", "stop", "cut", "cut", "blink", "blink", "expire", "impostor"))
        self.faults.append(kind)
        if kind == "kill":
            self._replace(who)
        elif kind == "stop":
            self._stopped_until[who.name] = self.now_ms + 2 * SESSION_MS
        elif kind == "cut":
            self._cut_until[who.name] = self.now_ms + self.draw.randint(SESSION_MS, 3 * SESSION_MS)
        elif kind == "blink":
            self._cut_until[who.name] = self.now_ms + SUSPENDED_MS + BEAT_MS
        elif kind == "expire" and who.session:
            self.store.end(who.session)
        elif kind == "impostor":
            self._impostor()

    def _replace(self, who: SimJobManager) -> None:
        self._dead.add(who.name)
        fresh = SimJobManager(self, f"{who.name}'")
        self.job_managers[self.job_managers.index(who)] = fresh
        self.beat(fresh)

    def _impostor(self) -> None:
        """A JobManager of another store, whose term happens to be the same."""
        for task_manager in self.task_managers:
            if task_manager.highest is not None:
                term = int(task_manager.highest[:16], 16)
                generation, attempt = make_generation(term, "impostor"), task_manager.attempt
                task_manager.confirm(generation, attempt, 999)

    # ---- a run -------------------------------------------------------------------------------------------------------

    def run(self) -> World:
        for job_manager in self.job_managers:
            self.beat(job_manager)
        self.watch_lock()
        self.at(self.draw.randint(0, 20_000), self.submit)
        self.at(self.draw.randint(0, 10_000), self.fault)
        self.at(FAULTS_UNTIL_MS, self._when_calm)
        self._run_until(lambda: not self.is_rough and self.is_over, LIMIT_MS)
        require(
            Law.LEADERSHIP,
            self.is_over,
            f"the job has not ended: {sorted(self.store.entries)}, accepted {self._accepted}",
        )
        require(Law.RESULT, not self.store.entries, f"left: {sorted(self.store.entries)}")
        self.history.check()
        self._check_files()
        return self

    def _run_until(self, is_over: Callable[[], bool], limit_ms: int) -> None:
        while self._events and self.now_ms < limit_ms and not is_over():
            self.now_ms, _, call = heapq.heappop(self._events)
            call()
            self._check_owners()

    def _when_calm(self) -> None:
        """A JobManager leads soon after the last fault, and goes on leading."""
        calm_ms = max([self.now_ms, *self._stopped_until.values(), *self._cut_until.values()])
        for poll in range(POLLS):
            self.at(calm_ms - self.now_ms + SOON_MS + 1_000 * poll, self._poll)

    def _poll(self) -> None:
        states = {jm.name: jm.leadership.state for jm in self.job_managers}
        is_led = LeadershipState.LEADING in states.values()
        require(Law.LEADERSHIP, is_led or self.is_over, f"nobody leads, long after the last fault: {states}")

    def _check_files(self) -> None:
        """What a killed or deposed leader left is gone when the next one has looked through the store."""
        terms = len(self.leaders)
        for job_manager in list(self.job_managers):
            self._replace(job_manager)
        is_led = lambda: len(self.leaders) > terms and any(jm.term and jm.term.has_swept for jm in self.job_managers)  # noqa: E731
        self._run_until(is_led, self.now_ms + LIMIT_MS)
        left = sorted(name for name in self.store.files if name.startswith(SUBMISSION) or PROGRAM in name)
        require(Law.UNNAMED_FILES, not left, f"files that nothing names: {left}")

    @property
    def is_over(self) -> bool:
        return self.store.has_ended and not self.store.entries

    def _check_owners(self) -> None:
        for job_manager in self.job_managers:
            if job_manager.term is not None and not job_manager.leadership.leads:
                raise LawBroken(
                    Law.DEPOSED, f"{job_manager.name} acts in term {job_manager.term.number}, and leads no more"
                )


def _submit(owner: SimJobManager, client: str) -> None:
    if owner.term is not None:
        owner.term.submit(client)
