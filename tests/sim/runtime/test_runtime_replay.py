"""A subtask that failed on a seeded schedule fails again when its recording is replayed: with the same exception at the same record.

``pytest tests/sim/runtime/test_runtime_replay.py --sim-seed N`` repeats one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import cloudpickle
import pytest

from tests.sim.runtime.recorded_failures import RecordedFailure
from tests.sim.seeds import BASE_SEED
from tidegate.taskmanager.recording.failures import Failure
from tidegate.taskmanager.replaying.replay import FailureReplay, ReplayOutcome

pytestmark = pytest.mark.sim

SCHEDULES, BLOCK, KINDS_BLOCK = 100, 25, 12


def replay(failure: Failure, directory: Path) -> ReplayOutcome:
    program = cloudpickle.loads((failure.folder / "program").read_bytes())
    return FailureReplay(failure, program, directory).run()


def run(seed: int, *, kind: str = "keyed") -> tuple[Failure, ReplayOutcome]:
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        world = RecordedFailure(seed, Path(path), kind=kind)
        failure = world.run()
        assert failure is not None, f"seed {seed}: {world.details}"
        outcome = replay(failure, Path(path) / "again")
        where = f"seed {seed}: pytest tests/sim/runtime/test_runtime_replay.py --sim-seed {seed}"
        assert outcome.differences == [], where
        assert outcome.reproduced, where
        if kind in ("keyed", "source"):
            assert next(iter(outcome.value)) == world.poison, where
        return failure, outcome


@pytest.mark.parametrize("first", range(0, SCHEDULES, BLOCK))
def test_what_failed_fails_again(first: int, pytestconfig: pytest.Config) -> None:
    only = pytestconfig.getoption("--sim-seed", None)
    if only is not None:
        if first == 0:
            print(run(only))
        return
    runs = [run(BASE_SEED + first + i) for i in range(BLOCK)]
    assert sum(failure.checkpoint_id > 0 for failure, _ in runs) > BLOCK / 4, "all began with the job"
    assert sum(failure.checkpoint_id == 0 for failure, _ in runs) > 0, "all began with a checkpoint"
    assert sum(len(failure.segments) > 1 for failure, _ in runs) > 0, "no checkpoint was under way"
    assert sum(outcome.outputs.count for _, outcome in runs) > 20 * BLOCK


@pytest.mark.parametrize("kind", ["source", "window", "batches"])
def test_other_kinds_fail_again(kind: str) -> None:
    runs = [run(BASE_SEED + 1_000 + i, kind=kind) for i in range(KINDS_BLOCK)]
    assert sum(failure.checkpoint_id > 0 for failure, _ in runs) > 0, "all began with the job"
    assert sum(outcome.outputs.count for _, outcome in runs) > 0


@pytest.mark.parametrize(("chance", "named"), [("random", "random"), ("time", "time.time_ns()")])
def test_what_a_recording_does_not_hold_is_named(chance: str, named: str, tmp_path: Path) -> None:
    outcomes = []
    for seed in range(10):
        directory = tmp_path / str(seed)
        failure = RecordedFailure(BASE_SEED + seed, directory, chance=chance).run()
        assert failure is not None
        outcomes.append(replay(failure, directory / "again"))
    assert all(any(text.endswith(f"calls {named}") for text in outcome.chance) for outcome in outcomes)
    assert all("replayed_job.py" in outcome.chance[0] for outcome in outcomes)
    assert any("records had left the subtask" in text for outcome in outcomes for text in outcome.differences)


def test_nothing_is_kept_of_more_than_the_bound(tmp_path: Path) -> None:
    world = RecordedFailure(BASE_SEED, tmp_path, max_bytes=500)
    assert world.run() is None
    assert "it was not kept for `tidegate replay`: more than 500 bytes came in" in world.details
