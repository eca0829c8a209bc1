"""A subtask that failed on a seeded schedule fails again when its recording is replayed: with the same exception at the same record.

``pytest tests/sim/runtime/test_runtime_replay.py --sim-seed N`` repeats one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.runtime.recorded_failures import RecordedFailure, fail_and_replay, replayed
from tests.sim.seeds import BASE_SEED

pytestmark = pytest.mark.sim

SCHEDULES, BLOCK, KINDS_BLOCK = 100, 25, 12


@pytest.mark.parametrize("first", range(0, SCHEDULES, BLOCK))
def test_what_failed_fails_again(first: int, pytestconfig: pytest.Config) -> None:
    only = pytestconfig.getoption("--sim-seed", None)
    if only is not None:
        if first == 0:
            print(fail_and_replay(only))
        return
    runs = [fail_and_replay(BASE_SEED + first + i) for i in range(BLOCK)]
    assert sum(failure.checkpoint_id > 0 for failure, _ in runs) > BLOCK / 4, "all began with the job"
    assert sum(failure.checkpoint_id == 0 for failure, _ in runs) > 0, "all began with a checkpoint"
    assert sum(len(failure.segments) > 1 for failure, _ in runs) > 0, "no checkpoint was under way"
    assert sum(outcome.outputs.count for _, outcome in runs) > 20 * BLOCK


@pytest.mark.parametrize(
    "kind", ["source", "window", "batches", "connected", "broadcast", "joined", "pattern", "forgetful"]
)
def test_other_kinds_fail_again(kind: str) -> None:
    runs = [fail_and_replay(BASE_SEED + 1_000 + i, kind=kind) for i in range(KINDS_BLOCK)]
    assert sum(failure.checkpoint_id > 0 for failure, _ in runs) > 0, "all began with the job"
    assert sum(outcome.outputs.count for _, outcome in runs) > 0


@pytest.mark.parametrize(("chance", "named"), [("random", "random"), ("time", "time.time_ns()")])
def test_what_a_recording_does_not_hold_is_named(chance: str, named: str, tmp_path: Path) -> None:
    outcomes = []
    for seed in range(10):
        directory = tmp_path / str(seed)
        failure = RecordedFailure(BASE_SEED + seed, directory, chance=chance).run()
        assert failure is not None
        outcomes.append(replayed(failure, directory / "again"))
    found = [text for outcome in outcomes for text in outcome.chance]
    assert len(found) >= 3, "of ten; one that fails at the first record behind a checkpoint asks for nothing"
    assert all(text.endswith(f"calls {named}") and "replayed_job.py:" in text for text in found)
    assert any("records had left the subtask" in text for outcome in outcomes for text in outcome.differences)


def test_nothing_is_kept_of_more_than_the_bound(tmp_path: Path) -> None:
    world = RecordedFailure(BASE_SEED, tmp_path, max_bytes=500)
    assert world.run() is None
    assert "it was not kept for `tidegate replay`: more than 500 bytes came in" in world.details
