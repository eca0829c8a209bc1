"""Memory of channels, as Flink's figures of network memory."""

from __future__ import annotations

from tests.contract.metrics.flink_names import recorded
from tidegate.taskmanager.service.reporting.process_metrics import network_memory, queued_bytes

FIGURES = {
    "Shuffle.Netty.Input.Buffers.inputQueueSize": 40_000.0,
    "Shuffle.Netty.Output.Buffers.outputQueueSize": 30_000.0,
}


def test_the_figures_have_flinks_names_and_add_up() -> None:
    used = queued_bytes(FIGURES)
    found = network_memory(320_000.0, used)
    assert {f"flink_taskmanager_{name.replace('.', '_')}" for name in found} == recorded(
        "taskmanager_Status_Shuffle"
    ).keys()
    assert found["Status.Shuffle.Netty.UsedMemory"] == 70_000
    assert found["Status.Shuffle.Netty.AvailableMemory"] == 250_000
    assert found["Status.Shuffle.Netty.UsedMemorySegments"] == 2
    assert found["Status.Shuffle.Netty.TotalMemorySegments"] == 9
    assert found["Status.Shuffle.Netty.RequestedMemoryUsage"] == 21


def test_without_a_bound_all_that_there_is_is_used() -> None:
    assert network_memory(0.0, 0.0)["Status.Shuffle.Netty.RequestedMemoryUsage"] == 0
    assert network_memory(0.0, queued_bytes({"busy": 1.0}))["Status.Shuffle.Netty.TotalMemory"] == 0
    assert network_memory(0.0, 5.0)["Status.Shuffle.Netty.RequestedMemoryUsage"] == 100
