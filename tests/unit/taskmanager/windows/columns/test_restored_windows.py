"""An operator whose restored windows are still being read takes rows and barriers; what fires, and event time, wait for them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import Pool, Running, restored_of, spec, start
from tests.unit.taskmanager.windows.columns.test_windows import batch, expected, options, results
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.errors import StorageError
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.windows.columns import window as windows
from tidegate.taskmanager.windows.state.windows import WindowMemory

SPEC = spec("columnar_window", options=options(["k"], input="raw"))


@pytest.fixture(autouse=True)
def _every_restore_is_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WindowMemory", partial(WindowMemory, eager_bytes=0))


def rows(rng: np.random.Generator, low: int, high: int) -> ArrowBatch:
    return batch(rng, 300, {"k": pa.array(rng.integers(0, 40, 300))}, low, high)


def begun(rng: np.random.Generator) -> tuple[list[ArrowBatch], Running, Pool]:
    """An operator that is restored with one batch and has taken another; what it reads waits in the pool."""
    batches, pool = [rows(rng, 0, 4000), rows(rng, 0, 4000)], Pool()
    first = start(SPEC)
    first.operator.process(batches[0], 0)
    second = start(SPEC, restored=restored_of([first.snapshot()]), given={"run_async": pool.submit})
    second.operator.process(batches[1], 0)
    return batches, second, pool


def test_a_watermark_waits_and_rows_do_not() -> None:
    rng = np.random.default_rng(3)
    batches, window, pool = begun(rng)
    window.operator.on_watermark(999)
    window.operator.on_watermark(1999)
    batches.append(rows(rng, 2000, 4000))
    window.operator.process(batches[-1], 0)
    late = rows(rng, 0, 2000)
    window.operator.process(late, 0)
    assert (window.out.batches, window.out.watermarks) == ([], [])
    assert window.out.counts["numLateRecordsDropped"] == len(late)
    pool.run_one()
    assert window.out.watermarks == [1999]
    assert results([window]) == [row for row in expected(batches, ["k"]) if row[0] < 2000]
    window.operator.on_watermark(END_OF_TIME)
    assert results([window]) == expected(batches, ["k"])


def test_a_watermark_before_all_restored_windows_goes_on_at_once() -> None:
    rng, pool = np.random.default_rng(9), Pool()
    first = start(SPEC)
    batches = [rows(rng, 3000, 5000), rows(rng, 0, 5000)]
    first.operator.process(batches[0], 0)
    window = start(SPEC, restored=restored_of([first.snapshot()]), given={"run_async": pool.submit})
    window.operator.process(batches[1], 0)
    window.operator.on_watermark(1999)
    assert window.out.watermarks == [1999]
    assert results([window]) == [row for row in expected(batches, ["k"]) if row[0] < 2000]
    window.operator.on_watermark(3999)
    assert window.out.watermarks == [1999]
    pool.run_one()
    assert window.out.watermarks == [1999, 3999]
    window.operator.on_watermark(END_OF_TIME)
    assert results([window]) == expected(batches, ["k"])


def test_a_snapshot_before_everything_was_read_has_all_of_it() -> None:
    batches, window, pool = begun(np.random.default_rng(4))
    window.operator.on_watermark(1999)
    snapshot = window.snapshot(2)
    assert window.out.watermarks == []
    third = start(SPEC, restored=restored_of([snapshot]))
    third.operator.on_watermark(END_OF_TIME)
    assert results([third]) == expected(batches, ["k"])
    pool.run_one()
    assert window.out.watermarks == [1999]


def test_the_end_of_time_waits_for_nothing_else() -> None:
    batches, window, pool = begun(np.random.default_rng(5))
    window.operator.on_watermark(1999)
    window.operator.on_watermark(END_OF_TIME)
    assert results([window]) == expected(batches, ["k"])
    pool.run_one()
    assert window.out.watermarks == [END_OF_TIME]


@pytest.mark.parametrize("is_active_again", [False, True])
def test_an_input_that_becomes_idle_stays_behind_the_watermark(is_active_again: bool) -> None:
    _, window, pool = begun(np.random.default_rng(6))
    window.operator.on_watermark(1999)
    window.operator.on_idle(True)
    if is_active_again:
        window.operator.on_idle(False)
    assert window.out.idle == []
    pool.run_one()
    assert window.out.watermarks == [1999]
    assert window.out.idle == ([] if is_active_again else [True])


def test_a_job_that_is_stopped_with_a_savepoint_emits_nothing_more() -> None:
    _, window, pool = begun(np.random.default_rng(7))
    window.operator.on_watermark(1999)
    window.operator.suspend()
    window.operator.context.has_ended = True
    pool.run_one()
    assert (window.out.batches, window.out.watermarks) == ([], [])


def test_a_task_that_ends_reads_no_more() -> None:
    _, window, pool = begun(np.random.default_rng(8))
    window.operator.close()
    with pytest.raises(StorageError, match="its task ended"):
        pool.run_one()
