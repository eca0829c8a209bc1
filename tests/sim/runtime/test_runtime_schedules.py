"""Whole jobs on seeded schedules through the real runtime: mailbox loop, exchange, snapshots, restore and replay.

``pytest tests/sim/runtime --sim-seed N`` repeats one.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import pytest

from tests.invariants import checked
from tests.sim.laws import Law, LawBroken
from tests.sim.runtime import job
from tests.sim.runtime.schedule import Outcome, Schedule
from tests.sim.runtime.world import Execution
from tests.sim.seeds import BASE_SEED
from tidegate.connectors.base import SinkContext, SinkWriter
from tidegate.records.batch import Batch, RecordsBatch

pytestmark = pytest.mark.sim

SCHEDULES, BLOCK, AT_LEAST_ONCE, HOARDING = 500, 50, 50, 12
"""More than it takes to catch any planted bug; `make soak` runs others for five minutes."""
_KILLS_A_SINK_FUNCTION = BASE_SEED + 12
"""Seed of a schedule in which a subtask is killed while a transaction of its sink function is open."""


def run(seed: int, *, exactly_once: bool = True) -> Outcome:
    try:
        with checked():
            return Schedule(seed, exactly_once=exactly_once).run()
    except (LawBroken, AssertionError) as error:
        raise AssertionError(f"{error}\nrepeat it: pytest tests/sim/runtime --sim-seed {seed}") from error


def run_all(seeds: Sequence[int]) -> list[Outcome]:
    return [Schedule(seed).run() for seed in seeds]


@pytest.mark.parametrize("first", range(0, SCHEDULES, BLOCK))
def test_jobs_are_exact_whatever_fails(first: int, pytestconfig: pytest.Config) -> None:
    only = pytestconfig.getoption("--sim-seed", None)
    if only is not None:
        if first == 0:
            print(run(only))
        return
    outcomes = [run(BASE_SEED + first + i) for i in range(BLOCK)]
    # Far below what any block shows.
    assert sum(o.executions for o in outcomes) > 1.2 * BLOCK, "jobs that never restart show nothing"
    assert sum(o.counts.checkpoints for o in outcomes) > 2 * BLOCK, "nor do those without checkpoints"
    assert sum(o.counts.aborted for o in outcomes) > BLOCK
    assert sum(o.counts.in_flight for o in outcomes) > 1000 * BLOCK, "and where nothing is in flight of one"


def test_at_least_once_loses_nothing() -> None:
    outcomes = [run(BASE_SEED + i, exactly_once=False) for i in range(AT_LEAST_ONCE)]
    assert sum(o.executions for o in outcomes) > 1.2 * AT_LEAST_ONCE


def test_a_schedule_is_its_seed() -> None:
    assert Schedule(BASE_SEED).run() == Schedule(BASE_SEED).run()


def test_what_was_killed_in_one_world_aborts_nothing_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[list[object]] = []
    following = job.Outside()
    monkeypatch.setattr(following.bank, "abort", late.append)
    gc.disable()  # nothing that is left is collected before the next world is there
    try:
        outcome = Schedule(_KILLS_A_SINK_FUNCTION).run()
        job.enter(following)
        gc.collect()
    finally:
        gc.enable()
    assert outcome.executions > 1
    assert late == []


def test_a_checkpoint_that_starts_while_a_subtask_finishes_breaks_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Execution, "_is_anyone_leaving", lambda execution: False)
    with pytest.raises(LawBroken, match="about to finish") as raised:
        run_all(range(BASE_SEED, BASE_SEED + BLOCK))
    assert raised.value.law == Law.ENDING


class _Hoarding(SinkWriter):
    """Accepts rows until it has twenty, and gives them away with every second checkpoint, as ``to_spark`` does that writes slowly."""

    works_on = "records"

    def __init__(self, context: SinkContext, state: Sequence[Any]) -> None:
        self._context = context
        self._rows: list[Any] = [row for rows in state for row in rows]
        self._is_ending = False

    def write(self, batch: Batch) -> None:
        assert isinstance(batch, RecordsBatch)
        self._rows += [list(value) for value in batch.values]

    def has_room(self) -> bool:
        return len(self._rows) < 20

    def waits_for_barrier(self) -> bool:
        return True

    def holds_rows(self) -> bool:
        return bool(self._rows)

    def flush(self, end_of_input: bool) -> None:
        self._is_ending |= end_of_input

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        if not self._rows or (checkpoint_id % 2 and not self._is_ending):
            return []
        rows, self._rows = self._rows, []
        return [[f"{self._context.attempt}/{checkpoint_id}", checkpoint_id, rows]]

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [self._rows] if self._rows else []


def test_a_sink_that_only_a_barrier_empties_does_not_keep_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        job.OutsideSink, "make_writer", lambda sink, context, state, input_type: _Hoarding(context, state)
    )
    outcomes = run_all(range(BASE_SEED, BASE_SEED + HOARDING))
    assert sum(o.counts.checkpoints for o in outcomes) > HOARDING
