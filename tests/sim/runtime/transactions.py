"""A sink function that commits in two phases, and the system that it writes to, which knows transactions by ids of a pool.

open ─▶ pre-committed ─▶ committed        a transaction ends once: whoever commits what was aborted has lost its rows
  └────────┴──▶ aborted
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from tests.sim.laws import Law
from tidegate.datastream.functions import FunctionSnapshotContext
from tidegate.functions.transactional_ids import TransactionalIdsSinkFunction

_POOL = 200
"""More than checkpoints that a schedule aborts one after the other."""

Handle = list[Any]
"""``[id, epoch]``."""


@dataclass
class Bank:
    """The system. ``fail(law, text)``; ``show(identity, checkpoint id, rows)``."""

    fail: Callable[[Law, str], None]
    show: Callable[[str, int, list[Any]], None]
    status: dict[tuple[str, int], str] = field(default_factory=dict)
    rows: dict[tuple[str, int], list[Any]] = field(default_factory=dict)
    voted: dict[tuple[str, int], int] = field(default_factory=dict)
    """With which checkpoint."""

    def begin(self, transactional_id: str) -> Handle:
        self.abort_all([transactional_id])  # as a broker fences the last user of an id
        epoch = 1 + max((epoch for one, epoch in self.status if one == transactional_id), default=0)
        self.status[transactional_id, epoch] = "open"
        self.rows[transactional_id, epoch] = []
        return [transactional_id, epoch]

    def write(self, handle: Handle, value: Any) -> None:
        self._expect(handle, {"open"}, "written to")
        self.rows[handle[0], handle[1]].append(list(value))

    def pre_commit(self, handle: Handle) -> None:
        if self._expect(handle, {"open"}, "pre-committed"):
            self.status[handle[0], handle[1]] = "pre-committed"

    def commit(self, handle: Handle) -> None:
        if self._expect(handle, {"pre-committed", "committed"}, "committed"):
            one = (handle[0], handle[1])
            self.status[one] = "committed"
            if one not in self.voted:
                self.fail(Law.PUBLISHED, f"{one} is committed, and no checkpoint holds it")
            self.show(f"{one}", self.voted.get(one, 0), self.rows[one])

    def abort(self, handle: Handle) -> None:
        if self._expect(handle, {"open", "pre-committed", "aborted"}, "aborted"):
            self.status[handle[0], handle[1]] = "aborted"

    def abort_all(self, transactional_ids: Collection[str]) -> None:
        for one, status in self.status.items():
            if one[0] in transactional_ids and status in ("open", "pre-committed"):
                self.status[one] = "aborted"

    def _expect(self, handle: Handle, allowed: set[str], call: str) -> bool:
        found = self.status[handle[0], handle[1]]
        if found not in allowed:
            self.fail(Law.TRANSACTIONS, f"{handle} is {call}, but it is {found}")
        return found in allowed


bank: Bank
"""Of the world that runs; see ``job.outside``."""


def enter(found: Bank) -> None:
    global bank
    bank = found


class BankSink(TransactionalIdsSinkFunction[Any, Handle]):
    def __init__(self) -> None:
        super().__init__("t", _POOL)

    def begin_transaction(self) -> Handle:
        return bank.begin(self.next_transactional_id())

    def invoke(self, transaction: Handle, value: Any, context: TransactionalIdsSinkFunction.Context) -> None:
        bank.write(transaction, value)

    def pre_commit(self, transaction: Handle) -> None:
        bank.pre_commit(transaction)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        super().snapshot_state(context)
        for checkpoint_id, (transactional_id, epoch) in self.pending_transactions():
            bank.voted.setdefault((transactional_id, epoch), checkpoint_id)

    def commit(self, transaction: Handle) -> None:
        bank.commit(transaction)

    def abort(self, transaction: Handle) -> None:
        bank.abort(transaction)

    def transactional_id_of(self, transaction: Handle) -> str:
        return str(transaction[0])

    def abort_transactional_ids(self, transactional_ids: Collection[str]) -> None:
        bank.abort_all(transactional_ids)
