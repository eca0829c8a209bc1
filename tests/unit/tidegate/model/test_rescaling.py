"""Bounds of parallelism and the shape that follows from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.jobmanager.machines.cluster_kit import graph, two_stage, vertex, vertex_id
from tidegate.model.graph import JobGraph, Partitioner
from tidegate.model.ids import VertexId
from tidegate.model.leadership.noted_attempts import NotedAttempts
from tidegate.model.rescaling.bounds import (
    ParallelismBounds,
    completed,
    fit,
    forward_groups,
    parallelism_of,
    problems_of,
    with_parallelism,
)
from tidegate.model.rescaling.shape import Shape

SOURCE, SINK = vertex_id("source"), vertex_id("sink")


def bounds(**asked: tuple[int, int]) -> dict[VertexId, ParallelismBounds]:
    return {vertex_id(name): ParallelismBounds(*both) for name, both in asked.items()}


def two_groups() -> JobGraph:
    return graph(
        [vertex("source", 2, source=True, group="a"), vertex("sink", 2, group="b")],
        [("source", "sink", Partitioner.HASH)],
    )


@pytest.mark.parametrize(
    ("slots", "expected"), [(1, (1, 1)), (2, (2, 1)), (3, (3, 1)), (0, None), (9, (4, 1))], ids=str
)
def test_vertices_that_share_slots_take_what_fits(slots: int, expected: tuple[int, int] | None) -> None:
    found = fit(two_stage(), bounds(source=(1, 4), sink=(1, 1)), slots)
    assert found == (None if expected is None else dict(zip((SOURCE, SINK), expected, strict=True)))


def test_groups_of_slot_sharing_grow_evenly() -> None:
    asked = bounds(source=(1, 8), sink=(1, 2))
    assert fit(two_groups(), asked, 1) is None
    assert fit(two_groups(), asked, 4) == {SOURCE: 2, SINK: 2}
    assert fit(two_groups(), asked, 7) == {SOURCE: 5, SINK: 2}


def test_vertices_between_which_rows_go_forward_have_as_many_subtasks() -> None:
    job = two_stage(2, Partitioner.FORWARD)
    assert [len(group) for group in forward_groups(job)] == [2]
    assert fit(job, bounds(source=(1, 4), sink=(1, 3)), 9) == {SOURCE: 3, SINK: 3}
    assert "need the same parallelism" in problems_of(job, bounds(source=(3, 4), sink=(1, 2)))[0]


def test_a_vertex_that_keeps_its_parallelism_is_refused_another_one() -> None:
    job = graph([replace(vertex("source", 2, source=True), keeps_parallelism=True), vertex("sink", 2)])
    assert "can only run with parallelism 2" in problems_of(job, bounds(source=(1, 3), sink=(1, 3)))[0]
    asked = completed(job, bounds(source=(-1, -1), sink=(-1, -1)))
    assert asked == bounds(source=(1, 2), sink=(1, 128))
    assert fit(job, asked, 1) is None, "it needs two"
    assert fit(job, asked, 3) == {SOURCE: 2, SINK: 3}


def test_the_shape_is_the_graph_with_other_numbers() -> None:
    job = with_parallelism(two_stage(), {SOURCE: 5})
    assert parallelism_of(job) == {SOURCE: 5, SINK: 2}
    assert replace(job, vertices=()) == replace(two_stage(), vertices=())


@pytest.mark.parametrize(
    ("noted", "own", "following"),
    [
        (NotedAttempts(3, {1: 4}), NotedAttempts(), 6),
        (NotedAttempts(6), NotedAttempts(6), 7),
        (NotedAttempts(6, {0: 9}), NotedAttempts(6, {0: 9}), 10),
    ],
    ids=["nothing of it was deployed", "it was deployed", "a region of it has restarted"],
)
def test_attempts_of_an_earlier_shape_count_for_nothing(
    noted: NotedAttempts, own: NotedAttempts, following: int
) -> None:
    """Their regions had other numbers, and none of them may be adopted."""
    shape = Shape({SOURCE: 1, SINK: 1}, 6)
    assert shape.own(noted) == own
    assert shape.next_attempt(noted) == following
