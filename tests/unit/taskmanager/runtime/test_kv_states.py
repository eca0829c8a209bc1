"""When a subtask answers clients: between its steps, for a bounded time, and never at the job's cost."""

from __future__ import annotations

import pytest

from tidegate.common.typeinfo import Types
from tidegate.model.errors import ErrorInfo, InvalidJob
from tidegate.model.ids import OperatorId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.kv_state import KvStateInfo
from tidegate.model.values import Key, StateValue
from tidegate.records.record_codec import encode_column
from tidegate.taskmanager.keyed_state.queryable import QueryableState
from tidegate.taskmanager.runtime.ports import QueryState
from tidegate.taskmanager.runtime.queryable.kv_states import IDLE_MS, SHARE_MS, KvStateRegistry
from tidegate.wire.kv_state_columns import values_of, write_keys

OPERATOR = OperatorId("a" * 32)
Answers = list[tuple[bytes, ErrorInfo | None]]


class _Kit:
    """A state whose reads take ``read_ms`` each, on a clock of its own."""

    def __init__(self, read_ms: float = 0.0) -> None:
        self.now_ms, self.read_ms = 0.0, read_ms
        self.registered: list[KvStateInfo] = []
        self.answers: Answers = []
        self.states = KvStateRegistry(128, self.registered.append)
        self.states.publish(OPERATOR, "count", self.state("counts"))

    def state(self, name: str) -> QueryableState:
        def read(group: int, key: Key) -> StateValue:
            self.now_ms += self.read_ms
            if key == 13:
                raise ValueError("no such luck")
            return key * 10

        return QueryableState(name, "count", Types.LONG(), Types.LONG(), KeyGroupRange(0, 127), read)

    def ask(self, *keys: int, name: str = "counts") -> None:
        question = write_keys(encode_column(Types.LONG(), list(keys), "test"), Types.LONG().arrow_field("key"))
        self.states.queue(QueryState(name, question, lambda values, error: self.answers.append((values, error))))

    def answer(self, *, has_input: bool) -> bool:
        return self.states.answer_some(lambda: self.now_ms, has_input=has_input)


def test_a_state_is_registered_with_what_clients_need() -> None:
    (info,) = _Kit().registered
    assert (info.name, info.operator_id, info.operator, info.state_name) == ("counts", OPERATOR, "count", "count")
    assert (info.key_groups, info.max_parallelism) == (KeyGroupRange(0, 127), 128)


def test_nothing_to_answer_is_no_work() -> None:
    assert not _Kit().answer(has_input=False)


def test_questions_are_answered_in_their_order() -> None:
    kit = _Kit()
    kit.ask(1, 2)
    kit.ask(3)
    assert kit.answer(has_input=True)
    assert [values_of(values)["value"].to_pylist() for values, _ in kit.answers] == [[10, 20], [30]]


def test_while_there_is_input_questions_take_a_bounded_time_of_each_step() -> None:
    kit = _Kit(read_ms=SHARE_MS / 2)
    for key in range(7):
        kit.ask(key)
    taken = []
    while kit.answer(has_input=True):
        taken.append(len(kit.answers))
    assert taken == [2, 4, 6, 7]
    idle = _Kit(read_ms=SHARE_MS)
    for key in range(12):
        idle.ask(key)
    idle.answer(has_input=False)
    assert len(idle.answers) == IDLE_MS / SHARE_MS


def test_a_question_that_fails_is_an_error_for_its_client_alone() -> None:
    kit = _Kit()
    kit.ask(13)
    kit.ask(1, name="nothing")
    kit.ask(2)
    kit.answer(has_input=True)
    (_, failed), (_, unknown), (values, right) = kit.answers
    assert failed is not None
    assert failed.message == "ValueError: no such luck"
    assert unknown is not None
    assert unknown.code == "state-not-served"
    assert right is None
    assert values_of(values)["value"].to_pylist() == [20]


def test_a_name_that_another_operator_has_fails_the_function_that_asks_for_it() -> None:
    def refuse(info: KvStateInfo) -> None:
        raise InvalidJob("both have it")

    states = KvStateRegistry(128, refuse)
    with pytest.raises(InvalidJob, match="both have it"):
        states.publish(OPERATOR, "count", _Kit().state("counts"))
