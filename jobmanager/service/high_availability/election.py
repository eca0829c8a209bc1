"""The leader election of a JobManager: connects the election driver, the ``Leadership`` machine and the leader's services.

driver's threads ──▶ loop ──▶ Leadership ──▶ WaitForTurn, GiveUpLock ──▶ driver
                                   └──────▶ StartLeading, PauseCommits, ResumeCommits, StopLeading ──▶ Term
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar, assert_never

from tidegate.aio.process import Shutdown
from tidegate.aio.wakeful_loop import WakefulLoop
from tidegate.high_availability.port import Deposed, Election, Unavailable
from tidegate.jobmanager.machines import leadership as lead
from tidegate.model.leadership import Contact, ElectionEvent, ResignationRequested, StoreRefused

LOOK_S = 0.1
"""How often a standby checks whether the process is to end, in seconds."""

CHECK_LIMIT_S = 10.0
"""How long ``check`` waits for the store, in seconds: one that does not answer by then has suspended the connection or is about to."""

ASK_AGAIN_S = 0.5
"""The pause before the next request to the store, in seconds: the same as the first pause of ``FencedWrites``."""

_CHECK_AGAIN_S = 0.1  # chosen, not measured: a connection that is made anew takes longer

GAP_OF_LEASE = 0.25
"""If the process did not run for this fraction of the lease, it asks the store whether it still leads.

Chosen so that the lease cannot have ended in a shorter gap, since it is renewed each third or fifth of it.
"""

T = TypeVar("T")

_log = logging.getLogger("jobmanager")


class Follower(Protocol):
    """A service that is paused, resumed and deposed with the term, in the same step of the loop."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...

    def depose(self, reason: str) -> None:
        """Stops for good: nothing of the term may leave after this."""


class Term:
    """One term of leadership, which ends once. Followers are notified in reverse order of registration."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_over = asyncio.Event()
        self.followers: list[Follower] = []
        self._why = ""

    def pause(self) -> None:
        for follower in reversed(self.followers):
            follower.pause()

    def resume(self) -> None:
        for follower in self.followers:
            follower.resume()

    def end(self, reason: str) -> None:
        for follower in reversed(self.followers):
            follower.depose(reason)
        self._why = reason
        self.is_over.set()

    async def answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Repeats a call to the store until it is answered, as long as the term lasts. Raises ``Deposed`` after that."""
        while not self.is_over.is_set():
            try:
                return await ask()
            except Unavailable as error:
                _log.warning("the job store does not answer: %s; asking again", error.message)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ASK_AGAIN_S):
                        await self.is_over.wait()
        raise Deposed(f"this JobManager is no longer the leader: {self._why}")


class ElectionService:
    """Takes part in the election for this process. Belongs to the loop's thread."""

    def __init__(self, election: Election) -> None:
        self.election = election
        self._machine = lead.Leadership()
        self._loop = asyncio.get_running_loop()
        self._term: Term | None = None
        self._has_begun = asyncio.Event()
        self._driver = ThreadPoolExecutor(1, "election")  # one thread: its calls keep their order
        self._checks = ThreadPoolExecutor(1, "lead-check")
        if isinstance(self._loop, WakefulLoop):
            self._loop.watch_gaps(election.lease_ms / 1000 * GAP_OF_LEASE, self.check)

    def seek(self, contact: Contact) -> None:
        """Starts to take part in the election. Raises ``TidegateError`` when that can never work."""
        self.election.seek(contact, self._tell)

    async def wait_to_lead(self, shutdown: Shutdown, on_standby: Callable[[], None]) -> Term | None:
        """Waits for the next term of this process; ``None`` when the process is to end. ``on_standby`` is called if it does not lead at once."""
        is_logged = False
        while not await self._led_within(LOOK_S):
            if shutdown.is_requested:
                return None
            if not is_logged:
                on_standby()
            is_logged = True
        return self._term

    def refused(self, term: int, reason: str) -> None:
        """Ends a term, because the store knows a later leader."""
        self._on(StoreRefused(term, reason))

    def check(self) -> None:
        """Asks the store whether this process still leads, after it did not run for a while.

        Blocks the loop until the store has answered, before anything else is decided, answered, logged or sent. If another one leads, the
        term is over when this returns.
        """
        term = self._term
        if term is None:
            return
        entries, deadline_s = self.election.entries(term.number), time.monotonic() + CHECK_LIMIT_S
        while (left_s := deadline_s - time.monotonic()) > 0:
            try:
                self._checks.submit(entries.check_lead).result(left_s)
            except Deposed as error:
                self._on(StoreRefused(term.number, error.message))
                return
            except (Unavailable, TimeoutError):
                time.sleep(min(_CHECK_AGAIN_S, left_s))  # the loop is held up on purpose
            else:
                return
        _log.warning(
            "this process did not run for a while, and the store of the cluster does not say whether this JobManager still leads"
        )

    async def resign(self) -> None:
        """Gives up leadership for good in this process. Idempotent."""
        self._on(ResignationRequested())
        await self._loop.run_in_executor(self._driver, self.election.close)
        self._driver.shutdown(wait=False)
        self._checks.shutdown(wait=False)
        if isinstance(self._loop, WakefulLoop):
            self._loop.watch_gaps(0, self.check)

    async def _led_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._has_begun.wait()
        except TimeoutError:
            return False
        return True

    def _tell(self, event: ElectionEvent) -> None:
        try:
            self._loop.call_soon_threadsafe(self._on, event)
        except RuntimeError:
            return  # the loop is closed, and this process has stopped leading

    def _on(self, event: lead.LeadershipEvent) -> None:
        for command in self._machine.on(event, 0):
            self._carry_out(command)

    def _carry_out(self, command: lead.LeadershipCommand) -> None:
        match command:
            case lead.WaitForTurn():
                self._driver.submit(self.election.wait_for_turn, command.session)
            case lead.GiveUpLock():
                self._driver.submit(self.election.give_up)
            case lead.StartLeading():
                _log.info("this JobManager leads in term %d", command.term)
                self._term = Term(command.term)
                self._has_begun.set()
            case lead.PauseCommits():
                _log.warning(
                    "the connection to the store of the cluster is suspended: nothing is committed or confirmed until it is back"
                )
                if self._term is not None:
                    self._term.pause()
            case lead.ResumeCommits():
                _log.info("the connection to the store of the cluster is back, and this JobManager still leads")
                if self._term is not None:
                    self._term.resume()
            case lead.StopLeading():
                _log.info("this JobManager is no longer the leader: %s", command.reason)
                term, self._term = self._term, None
                self._has_begun.clear()
                if term is not None:
                    term.end(command.reason)
            case _:
                assert_never(command)
