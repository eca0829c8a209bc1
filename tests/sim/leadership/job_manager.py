"""A JobManager's process: the real machines of leadership and of fenced writes, and as little of the rest as a job needs that takes
checkpoints, keeps one of them, and ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, assert_never

from tests.sim.laws import Law, require
from tests.sim.leadership.store import RESULT, Store
from tests.sim.leadership.task_manager import SimTaskManager
from tidegate.high_availability.port import Deposed
from tidegate.jobmanager.machines import fenced_writes as writes
from tidegate.jobmanager.machines import leadership as lead
from tidegate.jobmanager.programs.blob_names import BlobNames
from tidegate.model.fencing import make_generation
from tidegate.model.ids import BlobKey
from tidegate.model.leadership import StoreRefused

if TYPE_CHECKING:
    from tests.sim.leadership.world import World

JOB, LAST_CHECKPOINT = "job", 6
PLAN, COUNTER, ATTEMPT = "plan", "counter", "attempt"
SUBMISSION = "submission/"
PROGRAM = BlobKey("a" * 64)
"""Each client uploads the same one."""
RETRY_MS = 100


class SimJobManager:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.session = 0
        self.heard_ms = world.now_ms
        self.is_suspended = False
        self.leadership = lead.Leadership()
        self.term: SimTerm | None = None
        self.early: tuple[list[int], int] = ([], 0)
        """Pointers and attempt as they were before the lock: only a bug looks at them."""

    def on(self, event: lead.LeadershipEvent) -> None:
        for command in self.leadership.on(event, self.world.now_ms):
            self._carry_out(command)
        self.leadership.check_invariants()

    def _carry_out(self, command: lead.LeadershipCommand) -> None:
        store = self.world.store
        match command:
            case lead.WaitForTurn():
                self.early = (store.pointers(), int(store.entries.get(ATTEMPT, "0")))
                self.world.send(self, lambda: store.get_in_line(command.session))
            case lead.StartLeading():
                self.term = SimTerm(self, command.term)
                self.term.begin()
            case lead.PauseCommits():
                self._of(writes.WritesPaused())
            case lead.ResumeCommits():
                self._of(writes.WritesResumed())
            case lead.StopLeading():
                self._of(writes.TermOver())
                self.depose()
            case lead.GiveUpLock():
                session = self.session
                self.world.send(self, lambda: store.leave_line(session))
            case _:
                assert_never(command)

    def depose(self) -> None:
        if self.term is not None:
            self.term.is_over = True
        self.term = None

    def _of(self, event: writes.WritesEvent) -> None:
        if self.term is not None:
            self.term.on(event)


class SimTerm:
    """What one leader does."""

    def __init__(self, owner: SimJobManager, number: int) -> None:
        self.owner, self.number, self.world = owner, number, owner.world
        self.store: Store = owner.world.store
        self.generation = make_generation(number, owner.name)
        self.writes = writes.FencedWrites()
        self.is_over = False
        self.calls: dict[int, Callable[[], object]] = {}
        self.granted: dict[int, Callable[[object], None]] = {}
        self.results: dict[int, object] = {}
        self.attempt = 0
        self.next_id = 1
        self.kept: list[int] = []
        self.is_known = False
        self.began_ms = self.world.now_ms
        self.is_ready = False
        """It has looked for jobs: clients are answered after that."""
        self.programs = BlobNames(number)
        self.needed: set[BlobKey] = set()
        self.has_swept = False

    # ---- fenced writes -----------------------------------------------------------------------------------------------

    def write(self, call: Callable[[], object], then: Callable[[object], None]) -> None:
        number = len(self.calls) + 1
        self.calls[number], self.granted[number] = call, then
        self.on(writes.WriteRequested(JOB, number))

    def on(self, event: writes.WritesEvent) -> None:
        for command in self.writes.on(event, self.world.now_ms):
            match command:
                case writes.Write():
                    self._send(command.number)
                case writes.Grant():
                    self.granted[command.number](self.results.get(command.number))
                case writes.WakeUp():
                    self.world.later(self.owner, command.delay_ms, partial(self.on, writes.WriteDue(command.number)))
                case writes.Resign():
                    self.owner.on(StoreRefused(self.number))
                case writes.Abandon():
                    self.abandoned(command.number)
        self.writes.check_invariants()

    def abandoned(self, number: int) -> None:
        """What was to follow does not: it may have happened, for the next leader."""

    def _send(self, number: int) -> None:
        def answer(result: object) -> None:
            if isinstance(result, Deposed):
                self.on(writes.WriteRefused(number))
            elif isinstance(result, TimeoutError):
                self.on(writes.WriteUnanswered(number))
            else:
                self.results[number] = result
                self.on(writes.WriteDone(number))

        self.world.ask(self.owner, self.calls[number], answer)

    # ---- the job -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.world.later(self.owner, self.world.delay(), self._load, lambda: self.is_over)

    def found(self) -> tuple[list[int], int]:
        """Pointers and the highest attempt: read by a leader."""
        return self.store.pointers(), int(self.store.entries.get(ATTEMPT, "0"))

    def _load(self) -> None:
        self.is_ready = True
        self.sweep()
        self.programs.found(self.store.files)
        if self.store.entries.get(RESULT):
            self._clean()
        elif PLAN in self.store.entries and not self.is_known:
            self.is_known = True
            self.needed.add(PROGRAM)
            self.run()
        self.world.later(self.owner, self.world.delay(), self.sweep_programs)

    def sweep(self) -> None:
        """Removes submissions that no plan names: their leader was killed or deposed before they were accepted."""
        named = self.store.entries.get(PLAN)
        for name in [name for name in self.store.files if name.startswith(SUBMISSION) and name != named]:
            self.store.files.discard(name)

    def sweep_programs(self) -> None:
        """Removes those that no job of this leader needs. A bucket is looked through in a thread, which may end when another one leads."""
        self.store.files = {name for name in self.store.files if not self._may_go(name)}
        self.has_swept = True

    def _may_go(self, name: str) -> bool:
        return PROGRAM in name and self.programs.may_go(name, self.needed)

    def release(self) -> None:
        """The job has ended."""
        self.needed.discard(PROGRAM)
        name = self.programs.remove(PROGRAM)
        self.world.later(self.owner, self.world.delay(), lambda: self.store.files.discard(name))

    def submit(self, client: str) -> None:
        """``PLAN`` holds which of the submissions is the job. A submission whose job has ended is refused."""
        if self.is_known or not self.is_ready:
            return
        self.is_known = True
        self.needed.add(PROGRAM)
        self.store.files.add(self.programs.add(PROGRAM))
        value = f"{SUBMISSION}{client}/{self.world.unique()}"
        self.store.files.add(value)

        def accepted(result: object) -> None:
            if result:
                self.world.accepted(client)
                self.run()
            else:
                self.store.files.discard(value)

        self.write(lambda: not self.store.has_ended and self.store.create(self.number, PLAN, value), accepted)

    def run(self) -> None:
        name = self.programs.get(PROGRAM)
        is_there = name in self.store.files or not self.store.is_led_in(
            self.number
        )  # a deposed one gets no further than this
        require(Law.PROGRAM, is_there, f"term {self.number} runs a job whose program is gone: {name}")
        self.kept, last = self.found()
        self.world.history.read(self.kept[-1] if self.kept else 0, self.began_ms, self.world.now_ms)
        self.next_id = int(self.store.entries.get(COUNTER, "0")) + 1
        self.attempt = last + 1
        noted = str(self.attempt)
        self.write(lambda: self.store.put(self.number, ATTEMPT, noted), lambda _: self._deploy())

    def _deploy(self) -> None:
        restored = self.kept[-1] if self.kept else 0
        self._tell("deploys", lambda tm: tm.deploy(self.generation, self.attempt, restored), self._next)

    def _next(self) -> None:
        if self.next_id > LAST_CHECKPOINT and self.kept:
            self.end()
            return
        number = self.next_id
        self.next_id += 1
        self.write(lambda: self.store.put(self.number, COUNTER, str(number)), lambda _: self._trigger(number))

    def _trigger(self, number: int) -> None:
        self._tell("triggers", lambda tm: tm.trigger(self.generation, self.attempt), lambda: self.seal(number))

    def seal(self, number: int) -> None:
        """``_metadata``: any process can write it, also one that leads no more."""
        self.store.files.add(f"pointer/{number}")
        name, place = f"pointer/{number}", self.generation
        call = self.world.history.write(number, self.world.now_ms)

        def committed(_: object) -> None:
            call.ended_ms = self.world.now_ms
            self._committed(number)

        self.write(lambda: self.store.create(self.number, name, place), committed)

    def _committed(self, number: int) -> None:
        self.kept.append(number)
        self._tell("confirms", lambda tm: tm.confirm(self.generation, self.attempt, number), lambda: None, again=True)
        for older in self.kept[:-1]:
            self.remove(older)
        self.kept = self.kept[-1:]
        self.world.later(self.owner, self.world.interval_ms, self._next, lambda: self.is_over)

    def remove(self, number: int) -> None:
        name = f"pointer/{number}"
        self.write(lambda: self.store.delete(self.number, name), lambda _: self.discard(name))

    def discard(self, name: str) -> None:
        self._may_act("removes")
        require(Law.POINTER, name not in self.store.entries, f"{name} is removed, and the store names it")
        self.store.files.discard(name)

    def end(self) -> None:
        self.write(lambda: self.store.put(self.number, RESULT, "FINISHED"), lambda _: None)
        self.remove_last()
        self._clean()

    def remove_last(self) -> None:
        for number in self.kept:
            self.remove(number)

    def _clean(self) -> None:
        def clean() -> None:
            require(
                Law.RESULT,
                RESULT in self.store.entries or PLAN not in self.store.entries,
                "cleaned up before its result",
            )
            for name in [name for name in self.store.entries if name != RESULT]:
                self.store.delete(self.number, name)
            self.store.delete(self.number, RESULT)
            self.store.has_ended = True

        def cleaned(_: object) -> None:
            self.sweep()
            self.release()

        self.write(clean, cleaned)

    # ---- TaskManagers ------------------------------------------------------------------------------------------------

    def _tell(
        self,
        what: str,
        call: Callable[[SimTaskManager], bool],
        then: Callable[[], None],
        *,
        again: bool = False,
    ) -> None:
        """Until it is answered; ``again``: also when its answer was lost, as a confirm is."""
        if what != "triggers":
            self._may_act(what)
        self.world.tell(self, what, call, then, again=again)

    def _may_act(self, what: str) -> None:
        state = self.owner.leadership.state
        is_leading = self.owner.term is self and state is lead.LeadershipState.LEADING
        require(
            Law.DEPOSED, is_leading and not self.owner.is_suspended, f"{what} while {state.value}, term {self.number}"
        )
