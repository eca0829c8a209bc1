"""Where state that clients may ask for is: what registers, what clients get, and what is forgotten."""

from __future__ import annotations

import pytest

from tidegate.jobmanager.machines.kv_state_locations import KvStateLocationRegistry
from tidegate.model.errors import InvalidJob
from tidegate.model.ids import AttemptId, JobId, OperatorId, VertexId
from tidegate.model.keygroups import KeyGroupRange, range_of
from tidegate.model.kv_state import KvStateInfo

JOB, OTHER_JOB = JobId("1" * 32), JobId("3" * 32)
GROUPS = 128


def attempt_of(subtask: int, attempt: int, job: JobId = JOB) -> AttemptId:
    return AttemptId(job, VertexId("2" * 32), subtask, attempt)


def info_of(subtask: int, parallelism: int = 2, name: str = "counts", operator: str = "a" * 32) -> KvStateInfo:
    groups = range_of(subtask, GROUPS, parallelism)
    return KvStateInfo(name, OperatorId(operator), f"uid-{operator[0]}", "count", groups, GROUPS, b"types")


class _Current:
    """Which attempts are current."""

    def __init__(self, *attempts: AttemptId) -> None:
        self.attempts = set(attempts)

    def __call__(self, attempt: AttemptId) -> bool:
        return attempt in self.attempts


def registered(*attempts: AttemptId, parallelism: int = 2) -> KvStateLocationRegistry:
    registry = KvStateLocationRegistry()
    for attempt in attempts:
        registry.register(attempt, info_of(attempt.subtask, parallelism), f"tm:{attempt.subtask}", lambda _: True)
        registry.check_invariants()
    return registry


def test_each_key_group_is_where_its_subtask_registered_it() -> None:
    registry = registered(attempt_of(1, 0), attempt_of(0, 0))
    found = registry.locate(JOB, "counts", lambda _: True)
    assert found is not None
    assert [place.key_groups for place in found.places] == [KeyGroupRange(0, 63), KeyGroupRange(64, 127)]
    assert {group: place.address for group, place in found.by_group().items()} == {
        group: f"tm:{group // 64}" for group in range(GROUPS)
    }


def test_a_place_is_given_only_while_its_attempt_is_current() -> None:
    registry = registered(attempt_of(0, 0), attempt_of(1, 0))
    found = registry.locate(JOB, "counts", _Current(attempt_of(0, 0)))
    assert found is not None
    assert [place.attempt.subtask for place in found.places] == [0]
    gone = registry.locate(JOB, "counts", _Current())
    assert gone is not None, "what the state is is known while its subtasks restart: a checkpoint has it"
    assert gone.places == ()


def test_a_job_of_another_shape_is_found_in_that_shape_alone() -> None:
    registry = registered(attempt_of(0, 0), attempt_of(1, 0))
    current = _Current(*(attempt_of(subtask, 1) for subtask in range(4)))
    for subtask in range(4):
        registry.register(attempt_of(subtask, 1), info_of(subtask, 4), "tm", current)
    found = registry.locate(JOB, "counts", lambda _: True)
    assert found is not None
    assert [place.key_groups for place in found.places] == [range_of(subtask, GROUPS, 4) for subtask in range(4)]


def test_two_operators_cannot_have_the_same_name() -> None:
    registry = registered(attempt_of(0, 0))
    with pytest.raises(InvalidJob, match=r"'uid-a' and 'uid-b' both have a queryable state 'counts'"):
        registry.register(attempt_of(0, 0), info_of(0, operator="b" * 32), "tm", lambda _: True)
    registry.register(attempt_of(0, 0, OTHER_JOB), info_of(0, operator="b" * 32), "tm", lambda _: True)
    registry.check_invariants()


def test_what_is_known_of_a_job_goes_with_it() -> None:
    registry = registered(attempt_of(0, 0))
    registry.register(attempt_of(0, 0), info_of(0, name="another"), "tm", lambda _: True)
    assert registry.names(JOB) == ["another", "counts"]
    registry.forget(JOB)
    assert registry.locate(JOB, "counts", lambda _: True) is None
    assert registry.names(JOB) == []
    registry.forget(OTHER_JOB)
    registry.check_invariants()
