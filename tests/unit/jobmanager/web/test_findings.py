"""Sentences about what is wrong with how a job works, and when there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tidegate.jobmanager.web.findings import (
    HELD_UP,
    LEAST_GROWTH_MS,
    LEAST_ROWS,
    UNEVEN,
    JobFinding,
    SubtaskLoad,
    VertexLoad,
    decide_findings,
)
from tidegate.jobmanager.web.series import SAMPLES, STEP_MS
from tidegate.model.graph import Partitioner
from tidegate.model.ids import VertexId

MINUTE_MS = 60_000
MIB = 1 << 20


def of(
    name: str,
    rows_s: Sequence[float],
    *inputs: tuple[str, Partitioner],
    busy: Sequence[float] | float = 0.2,
    backpressured: float = 0.0,
) -> VertexLoad:
    """A vertex with a subtask for each of ``rows_s``, measured for a minute."""
    shares = [busy] * len(rows_s) if isinstance(busy, float) else busy
    subtasks = [
        SubtaskLoad(index, rows, share, backpressured)
        for index, (rows, share) in enumerate(zip(rows_s, shares, strict=True))
    ]
    edges = [(VertexId(source), partitioner) for source, partitioner in inputs]
    return VertexLoad(VertexId(name), name, subtasks, MINUTE_MS, edges)


def with_state(sizes: Sequence[float]) -> VertexLoad:
    return replace(of("totals", [10.0]), state=sizes, step_ms=STEP_MS)


def sentences(*vertices: VertexLoad) -> list[str]:
    return [found.sentence for found in decide_findings(vertices)]


def only(*vertices: VertexLoad) -> JobFinding:
    (found,) = decide_findings(vertices)
    return found


def test_the_vertex_that_works_while_its_producers_wait_holds_the_job_up() -> None:
    source = of("orders", [100.0, 100.0], backpressured=0.8)
    price = of("price", [100.0, 100.0], ("orders", Partitioner.REBALANCE), busy=0.97)
    found = only(source, price, of("sink", [100.0], ("price", Partitioner.GLOBAL)))
    assert (found.kind, found.vertex_id, found.subtask) == ("slow", "price", None)
    assert found.sentence == (
        "price holds the job up: it is busy 97 % of the time, and what feeds it waits for it: orders 80 % of the time."
    )


def test_of_a_chain_the_busiest_operator_is_named_and_of_uneven_subtasks_the_busiest() -> None:
    source = of("orders", [100.0, 100.0], backpressured=0.8)
    chain = replace(
        of("price -> round", [100.0, 100.0], ("orders", Partitioner.REBALANCE), busy=[0.1, 0.9]),
        operators={"price": 0.7, "round": 0.1},
    )
    found = only(source, chain)
    assert "busy 90 % of the time in subtask 2 (50 % on average), most of it in price (70 %), and" in found.sentence
    assert found.subtask == 1
    assert found.advice.startswith("One subtask does most of its work")


def test_a_vertex_that_waits_itself_holds_nothing_up_but_the_one_behind_it_does() -> None:
    source = of("orders", [100.0], backpressured=0.9)
    middle = of("price", [100.0], ("orders", Partitioner.FORWARD), busy=0.6, backpressured=0.7)
    sink = of("sink", [100.0], ("price", Partitioner.FORWARD), busy=1.0)
    assert [found.vertex_id for found in decide_findings([source, middle, sink])] == ["sink"]


@pytest.mark.parametrize(
    ("busy", "waits"), [(HELD_UP - 0.01, 0.9), (0.9, HELD_UP), (1.0, 0.0)], ids=["idle", "not held up", "just busy"]
)
def test_without_both_a_busy_vertex_and_a_producer_that_waits_there_is_nothing(busy: float, waits: float) -> None:
    source = of("orders", [100.0], backpressured=waits)
    assert sentences(source, of("price", [100.0], ("orders", Partitioner.HASH), busy=busy)) == []


def test_a_subtask_with_far_more_rows_than_an_even_share_is_named_with_its_share() -> None:
    found = only(of("map", [20.0, 19.0, 41.0, 20.0], ("orders", Partitioner.HASH)))
    assert (found.kind, found.vertex_id, found.subtask) == ("skewed", "map", 2)
    assert found.sentence == "Subtask 3 of map gets 41 % of the rows; with 4 subtasks an even share is 25 %."
    assert "one key go to one subtask" in found.advice


@pytest.mark.parametrize(
    ("partitioner", "advice"),
    [(Partitioner.FORWARD, "rebalance() deals them evenly"), (Partitioner.CUSTOM, "partitioner of its input")],
)
def test_what_to_do_about_skew_depends_on_how_rows_are_dealt(partitioner: Partitioner, advice: str) -> None:
    assert advice in only(of("map", [90.0, 10.0], ("orders", partitioner))).advice


def test_a_source_whose_splits_are_uneven_reads_them() -> None:
    found = only(of("Source: orders", [0.0, 50.0, 0.0]))
    assert found.sentence.startswith("Subtask 2 of Source: orders reads 100 % of the rows;")
    assert "splits or partitions" in found.advice


def test_skew_begins_where_it_is_said_to() -> None:
    at = of("map", [10 * UNEVEN, 10.0, 10.0, 5.0], ("orders", Partitioner.HASH))
    below = of("map", [10 * UNEVEN - 0.5, 10.5, 10.0, 5.0], ("orders", Partitioner.HASH))
    assert len(sentences(at)) == 1
    assert sentences(below) == []


def test_of_few_rows_nothing_is_said_and_one_subtask_has_them_all() -> None:
    few = 2 * LEAST_ROWS / 60
    assert sentences(of("map", [few - 0.1, 0.0], ("orders", Partitioner.HASH))) == []
    assert len(sentences(of("map", [few, 0.0], ("orders", Partitioner.HASH)))) == 1
    assert sentences(of("map", [1000.0], ("orders", Partitioner.HASH))) == []
    assert sentences(replace(of("map", [1000.0]), subtasks=())) == []


def test_state_whose_least_size_rises_all_the_time_grows() -> None:
    found = only(with_state([MIB * (10 + step / 6) for step in range(SAMPLES)]))
    assert (found.kind, found.vertex_id, found.subtask) == ("growing", "totals", None)
    assert found.sentence == "The state of totals grows: from 10.0 MiB to 39.8 MiB in 14m 55s."


def windows(step: int) -> float:
    """A window that fills up for two minutes and is cleared then."""
    return MIB * (5 + step % 24)


@pytest.mark.parametrize(
    "sizes",
    [
        [40.0 * MIB] * SAMPLES,
        [windows(step) for step in range(SAMPLES)],
        [MIB * (400 + step / 6) for step in range(SAMPLES)],
        [1000.0 * (10 + step) for step in range(SAMPLES)],
        [MIB * min(40.0, 10.0 + step) for step in range(SAMPLES)],
        [MIB * (10.0 + step) for step in range(LEAST_GROWTH_MS // STEP_MS)],
        [],
    ],
    ids=["equal", "windows", "by few per cent", "small", "only at first", "too short", "none"],
)
def test_state_does_not_grow(sizes: Sequence[float]) -> None:
    assert sentences(with_state(sizes)) == []


def test_findings_are_in_the_order_of_their_kinds() -> None:
    source = of("orders", [100.0, 900.0], backpressured=0.8)
    price = of("price", [100.0, 100.0], ("orders", Partitioner.REBALANCE), busy=0.97)
    grown = with_state([MIB * (10.0 + step) for step in range(SAMPLES)])
    assert [found.kind for found in decide_findings([grown, source, price])] == ["slow", "skewed", "growing"]
