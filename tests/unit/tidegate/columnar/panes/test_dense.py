"""Keys that lie close together are added up in arrays behind the exchange, which neither results nor checkpoints show."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.keyed_state.columns.stores import Store
from tests.unit.taskmanager.operators.harness import MemoryStore, Running, restored_of, spec, start
from tests.unit.taskmanager.windows.columns.test_windows import SIZE, batch, expected, options, results
from tidegate.columnar.panes import dense
from tidegate.columnar.panes.dense import MIN_ROWS, DenseWindows
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.windows.columns.window import ColumnarWindow

ROWS = 4 * MIN_ROWS


def rows(rng: np.random.Generator, low: int, high: int, first_ms: int, kind: pa.DataType | None = None) -> ArrowBatch:
    """Without nulls in ``v``, so that every partial is a number."""
    keys = pa.array(rng.integers(low, high, ROWS), kind or pa.int64())
    made = batch(rng, ROWS, {"k": keys}, first_ms, first_ms + 1500)
    values = pa.array(rng.integers(-(10**6), 10**6, ROWS))
    return ArrowBatch(made.data.set_column(1, "v", values), made.timestamps)


def arrays_of(window: Running) -> DenseWindows:
    assert isinstance(window.operator, ColumnarWindow)
    assert window.operator._dense is not None
    return window.operator._dense


def windowing(restored: Running | None = None, managed: int = 0) -> Running:
    what = spec("columnar_window", options=options(["k"], input="raw"))
    given = {"managed_memory_bytes": managed}
    return start(what, 0, 1, None if restored is None else restored_of([restored.snapshot()]), given=given)


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint64(), pa.date32()])
def test_arrays_give_what_one_pass_gives(kind: pa.DataType) -> None:
    rng = np.random.default_rng(1)
    if kind == pa.date32():
        batches = [rows(rng, 0, 2000, 500 * i, pa.int32()) for i in range(8)]
        batches = [ArrowBatch(b.data.set_column(0, "k", b.data.column("k").view(kind)), b.timestamps) for b in batches]
    else:
        batches = [rows(rng, 0, 900 + 300 * i, 500 * i, kind) for i in range(8)]
    window = windowing()
    used = 0
    for number, one in enumerate(batches):
        window.operator.process(one, 0)
        used = max(used, arrays_of(window).rows)
        window.operator.on_watermark(500 * number - 1)
    assert used > 900, "the arrays were in use"
    window.operator.on_watermark(END_OF_TIME)
    assert results([window]) == expected(batches, ["k"])
    assert arrays_of(window).rows == arrays_of(window).nbytes == 0


def test_a_checkpoint_has_what_the_arrays_have_and_goes_on_behind_it() -> None:
    rng = np.random.default_rng(2)
    before = [rows(rng, -1500, 1500, 0) for _ in range(4)]
    window = windowing()
    for one in before:
        window.operator.process(one, 0)
    assert arrays_of(window).rows > 0
    second = windowing(window)
    after = [rows(rng, -1500, 1500, 0) for _ in range(4)]
    for one in after:
        window.operator.process(one, 0)
        second.operator.process(one, 0)
    for running in (window, second):
        running.operator.on_watermark(END_OF_TIME)
        assert results([running]) == expected([*before, *after], ["k"])


def test_what_is_frozen_does_not_change_while_arrays_go_on() -> None:
    rng = np.random.default_rng(3)
    window = windowing()
    for _ in range(3):
        window.operator.process(rows(rng, 0, 2500, 0), 0)
    assert arrays_of(window).rows > 0
    kept = window.snapshot()
    frozen = window.operator.freeze(2)
    window.operator.process(rows(rng, 0, 2500, 0), 0)
    assert frozen is not None
    assert frozen.write(MemoryStore()) == kept


@pytest.mark.parametrize(("low", "high"), [(0, 2**40), (2**62, 2**62 + 3000)])
def test_keys_that_lie_apart_or_are_huge_stay_rows(low: int, high: int) -> None:
    rng = np.random.default_rng(4)
    batches = [rows(rng, low, high, 0) for _ in range(3)]
    window = windowing()
    for one in batches:
        window.operator.process(one, 0)
    assert arrays_of(window).nbytes == 0
    window.operator.on_watermark(END_OF_TIME)
    assert results([window]) == expected(batches, ["k"])


def test_the_arrays_are_bounded_by_a_part_of_the_budget() -> None:
    rng = np.random.default_rng(5)
    batches = [rows(rng, 0, 3000, 0) for _ in range(6)]
    places = 2 * 3000 * (1 + 8 * 8)  # two windows
    enough, small = windowing(managed=1 << 24), windowing(managed=2 * places)
    for one in batches:
        enough.operator.process(one, 0)
        small.operator.process(one, 0)
    assert arrays_of(enough).rows > 3000
    assert arrays_of(small).nbytes == 0
    for running in (enough, small):
        assert running.out.watched["stateRows"]() > 3000
        running.operator.on_watermark(END_OF_TIME)
        assert results([running]) == expected(batches, ["k"])


def test_a_batch_over_many_windows_is_not_taken_apart() -> None:
    rng = np.random.default_rng(6)
    data = batch(rng, ROWS, {"k": pa.array(rng.integers(0, 50, ROWS))}, 0, 100_000)
    window = windowing()
    window.operator.process(data, 0)
    window.operator.process(data, 0)
    assert arrays_of(window).nbytes == 0
    window.operator.on_watermark(END_OF_TIME)
    assert results([window]) == expected([data, data], ["k"])


def test_a_checkpoint_makes_no_rows_in_the_thread_of_the_subtask(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    window = windowing()
    for _ in range(3):
        window.operator.process(rows(rng, 0, 2500, 0), 0)
    made: list[int] = []
    of_arrays = dense.Layout.rows

    def counted(layout: dense.Layout, number: int, arrays: dense.Arrays) -> pa.RecordBatch:
        made.append(number)
        return of_arrays(layout, number, arrays)

    monkeypatch.setattr(dense.Layout, "rows", counted)
    frozen = window.operator.freeze(1)
    assert frozen is not None
    window.operator.process(rows(rng, 0, 2500, 0), 0)
    assert not made
    frozen.write(MemoryStore())
    assert sorted(made) == [0, 1]


def test_with_little_memory_a_checkpoint_makes_rows_of_the_arrays() -> None:
    rng = np.random.default_rng(8)
    before = [rows(rng, 0, 3000, 0) for _ in range(4)]
    places = 2 * 3000 * (1 + 8 * 8)  # two windows
    window = windowing(managed=6 * places)
    for one in before:
        window.operator.process(one, 0)
    assert arrays_of(window).rows > 3000
    second = windowing(window)
    assert arrays_of(window).rows == 0
    after = rows(rng, 0, 3000, 0)
    for running in (window, second):
        running.operator.process(after, 0)
        running.operator.on_watermark(END_OF_TIME)
        assert results([running]) == expected([*before, after], ["k"])


SEQUENCES = 40


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_any_sequence_of_rows_checkpoints_and_restores_gives_every_window_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints build upon each other, are written while rows come, are confirmed or aborted; keys drift, so that arrays of a window differ in range."""
    monkeypatch.setattr(dense, "MIN_ROWS", 8)
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    store, shared = Store(), CheckpointOptions("chk", shared_location="shared")
    what = spec("columnar_window", options=options(["k"], input="raw"))
    managed = choose.choice([0, 0, 1 << 22, 1 << 16])

    def run(snapshot: OperatorSnapshot | None, number: int) -> Running:
        given = {"checkpoint_options": shared, "segments": store, "managed_memory_bytes": managed}
        restored = None if snapshot is None else restored_of([snapshot])
        return start(what, restored=restored, restored_id=None if snapshot is None else number, given=given)

    window, came, ended, passed, low = run(None, 0), list[ArrowBatch](), NO_WATERMARK, NO_WATERMARK, 0
    written = list[tuple[int, OperatorSnapshot, list[ArrowBatch], int]]()
    frozen, used = None, 0
    for number in range(1, 60):
        match choose.randrange(10):
            case 0:  # it goes on from an earlier checkpoint
                if written:
                    checkpoint, snapshot, came, ended = choose.choice(written[-2:])
                    came, passed, frozen, window = list(came), ended, None, run(snapshot, checkpoint)
            case 1:
                passed = max(passed, 0) + choose.randrange(2 * SIZE)
                window.operator.on_watermark(passed)
            case 2 | 3:
                if frozen is None:
                    frozen = (number, window.operator.freeze(number), list(came), passed)
            case 4 | 5:
                if frozen is not None:
                    checkpoint, state, content, until = frozen
                    assert state is not None
                    snapshot = state.write(store)
                    state.release()
                    frozen = None
                    if choose.random() < 0.7:
                        window.operator.notify_checkpoint_complete(checkpoint)
                        written.append((checkpoint, snapshot, content, until))
                    else:
                        window.operator.notify_checkpoint_aborted(checkpoint)
            case _:
                low = choose.choice([low, low, low + 20, low - 40, low + 1000])
                keys = pa.array(rng.integers(low, low + 60, 200))
                first = max(passed, 0) // SIZE * SIZE + SIZE
                made = batch(rng, 200, {"k": keys}, first, first + 1500)
                values = pa.array(rng.integers(-(10**6), 10**6, 200))
                one = ArrowBatch(made.data.set_column(1, "v", values), made.timestamps)
                window.operator.process(one, 0)
                came.append(one)
                used = max(used, arrays_of(window).rows)
    window.operator.on_watermark(END_OF_TIME)
    assert used > 0
    fired = expected(came, ["k"])
    assert results([window]) == [row for row in fired if ended == NO_WATERMARK or row[1] - 1 > ended]
