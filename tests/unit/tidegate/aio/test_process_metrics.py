"""What a process says of itself, under Flink's names."""

from __future__ import annotations

import gc

from tidegate.aio.process_metrics import CollectorMetrics, CollectorRate, OwnProcess, StatusMetrics


def test_what_any_process_has_is_reported_under_flinks_names() -> None:
    found = StatusMetrics().look()
    assert found["Status.JVM.CPU.Time"] > 0
    assert found["Status.JVM.Threads.Count"] >= 1
    assert 0 < found["Status.JVM.FileDescriptor.Open"] <= found["Status.JVM.FileDescriptor.Max"]


def test_collections_are_counted_and_timed() -> None:
    now_s = [0.0]

    def clock() -> float:
        now_s[0] += 0.5
        return now_s[0]

    collected = CollectorMetrics(clock)
    try:
        before = collected.look(0.0)["Status.JVM.GarbageCollector.All.Count"]
        gc.collect()
        found = collected.look(1_000.0)
    finally:
        collected.close()
    count = found["Status.JVM.GarbageCollector.All.Count"] - before
    assert count >= 1
    assert found["Status.JVM.GarbageCollector.All.Time"] == 500 * (count + before)
    assert found["Status.JVM.GarbageCollector.All.TimeMsPerSecond"] >= 500


def test_a_rate_needs_two_looks() -> None:
    rate = CollectorRate()
    assert [rate.per_second(100, 1_000), rate.per_second(300, 3_000), rate.per_second(300, 3_000)] == [0.0, 100.0, 0.0]


def test_several_readers_within_a_second_get_one_look() -> None:
    now_ms = [0.0]
    process = OwnProcess(lambda: now_ms[0])
    try:
        first = process.look()
        assert process.look() is first
        now_ms[0] = 1_000.0
        assert process.look() is not first
        assert first["Status.JVM.Memory.Heap.Used"] == first["Status.Process.Memory.Resident"]
    finally:
        process.close()
