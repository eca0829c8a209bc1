"""Ids of transactions: no two subtasks have the same, whatever the parallelism becomes (Flink: ``TransactionalIdsGeneratorTest.java``)."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tests.unit.tidegate.connectors.test_two_phase_commit import begin
from tidegate.functions.transactional_ids import (
    NextTransactionalIdHint,
    TransactionalIdsGenerator,
    TransactionalIdsSinkFunction,
)
from tidegate.model.errors import UserFunctionError
from tidegate.taskmanager.operators.operator import Ending


def ids(subtask: int, parallelism: int, first: int = 0) -> list[str]:
    return TransactionalIdsGenerator("t", subtask, parallelism, 3, 4).generate_ids_to_use(first)


def test_subtasks_have_different_ids() -> None:
    assert ids(0, 2) == ["t-0", "t-1", "t-2"]
    assert ids(1, 2) == ["t-3", "t-4", "t-5"]
    assert ids(1, 2, first=6) == ["t-9", "t-10", "t-11"]


def test_ids_to_abort_cover_a_run_with_more_subtasks() -> None:
    """Up to the factor, and each is aborted by one subtask only."""
    used = {one for subtask in range(8) for one in ids(subtask, 8)}
    shares = [TransactionalIdsGenerator("t", subtask, 2, 3, 4).generate_ids_to_abort() for subtask in range(2)]
    assert used == {one for share in shares for one in share}
    assert len(used) == sum(map(len, shares))


def test_the_next_free_id_is_behind_all_that_a_scale_up_may_have_taken() -> None:
    hint = NextTransactionalIdHint(0, 0).at(2, 3)
    assert hint == NextTransactionalIdHint(2, 6)
    assert hint.at(1, 3) == NextTransactionalIdHint(1, 6)
    assert hint.at(3, 3) == NextTransactionalIdHint(3, 15)


class Pooled(TransactionalIdsSinkFunction[str, list[str | int]]):
    """Transactions in a dictionary."""

    def __init__(self, status: dict[str, str], pool_size: int = 3) -> None:
        super().__init__("t", pool_size)
        self.status = status

    def begin_transaction(self) -> list[str | int]:
        found = self.next_transactional_id()
        self.status[found] = "open"
        return [found, 0]

    def invoke(self, transaction: list[str | int], value: str, context: object) -> None: ...

    def pre_commit(self, transaction: list[str | int]) -> None:
        self.status[str(transaction[0])] = "pre-committed"

    def commit(self, transaction: list[str | int]) -> None:
        self.status[str(transaction[0])] = "committed"

    def abort(self, transaction: list[str | int]) -> None:
        self.status[str(transaction[0])] = "aborted"

    def transactional_id_of(self, transaction: list[str | int]) -> str:
        return str(transaction[0])

    def abort_transactional_ids(self, transactional_ids: Collection[str]) -> None:
        for one in transactional_ids:
            if self.status.get(one) in ("open", "pre-committed"):
                self.status[one] = "aborted"


def test_an_id_is_free_again_when_its_transaction_is_committed() -> None:
    status: dict[str, str] = {}
    one = begin(Pooled(status))
    one.snapshot(1)
    one.snapshot(2)
    assert status == {"t-0": "pre-committed", "t-1": "pre-committed", "t-2": "open"}
    with pytest.raises(UserFunctionError, match="all 3 transactional ids of t are in use"):
        one.snapshot(3)
    status.clear()
    one = begin(Pooled(status))
    for checkpoint_id in range(1, 9):
        one.snapshot(checkpoint_id)
        one.operator.notify_checkpoint_complete(checkpoint_id)
    assert set(status) == {"t-0", "t-1"}


def test_a_restart_aborts_what_no_checkpoint_holds() -> None:
    status: dict[str, str] = {}
    one = begin(Pooled(status))
    snapshot = one.snapshot(1)
    one.snapshot(2)
    begin(Pooled(status), [snapshot], attempt=1)
    assert status == {"t-0": "committed", "t-1": "aborted", "t-2": "aborted"} | {"t-0": "open"}


def test_a_restart_before_the_first_checkpoint_aborts_what_it_may_have_left() -> None:
    status: dict[str, str] = {}
    for subtask in range(4):
        begin(Pooled(status), subtask=subtask, parallelism=4).snapshot(1)
    for subtask in range(2):
        begin(Pooled(status), subtask=subtask, parallelism=2, attempt=1)
    assert set(status.values()) == {"aborted", "open"}
    assert [one for one, found in status.items() if found == "open"] == ["t-0", "t-3"]


def test_new_subtasks_take_ids_that_nobody_had() -> None:
    status: dict[str, str] = {}
    snapshots = [begin(Pooled(status), subtask=i, parallelism=2).snapshot(1) for i in range(2)]
    used = set(status)
    third = begin(Pooled(status), snapshots, subtask=2, parallelism=3, attempt=1)
    assert set(status) - used == {"t-12"}
    assert third.operator.ending() is Ending.DONE


def test_a_pool_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        Pooled({}, 1)
