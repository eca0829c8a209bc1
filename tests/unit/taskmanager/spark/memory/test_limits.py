from __future__ import annotations

import subprocess
import sys

from tidegate.model.deployment import InputDeployment, OutputDeployment, TaskDeployment
from tidegate.model.graph import Partitioner
from tidegate.model.ids import AllocationId, AttemptId, BlobKey, Generation, JobId, VertexId
from tidegate.model.options import RuntimeOptions
from tidegate.model.units import parse_size_bytes
from tidegate.taskmanager.spark.memory.limits import LEAST_CREDIT_BYTES, WorkerSettings, limit_exchange

ATTEMPT = AttemptId(JobId("a" * 32), VertexId("b" * 32), 0, 0)
KEY = RuntimeOptions.CHANNEL_CREDIT.key
MIB = 1 << 20


def deployment(producers: int, consumers: int, **configuration: str) -> TaskDeployment:
    return TaskDeployment(
        ATTEMPT,
        Generation("g"),
        AllocationId("1" * 32),
        "job",
        "map",
        2,
        128,
        BlobKey("f" * 64),
        inputs=(InputDeployment(0, 0, Partitioner.HASH, (ATTEMPT,) * producers),),
        outputs=(OutputDeployment(1, Partitioner.HASH, tuple(range(consumers)), consumers, 128),),
        configuration=configuration,
    )


def test_settings_travel_as_texts() -> None:
    settings = WorkerSettings(
        "unix:/tmp/s", "/tmp/t", 1, 2, 3, external_resources='{"gpu": [{"index": "1"}]}', machine_bytes=4
    )
    assert WorkerSettings.from_texts(settings.to_texts()) == settings


def test_all_channels_together_stay_within_the_network_memory() -> None:
    limited = limit_exchange(deployment(3, 5), WorkerSettings("h", network_memory_bytes=8 * MIB))
    assert parse_size_bytes(limited.configuration[KEY]) * 8 == 8 * MIB


def test_a_smaller_credit_of_the_job_is_kept_and_so_is_everything_without_a_bound() -> None:
    small = deployment(1, 1, **{KEY: "1 mb"})
    assert limit_exchange(small, WorkerSettings("h", network_memory_bytes=8 * MIB)) is small
    unbounded = deployment(100, 100)
    assert limit_exchange(unbounded, WorkerSettings("h")) is unbounded


def test_a_channel_can_always_hold_something() -> None:
    limited = limit_exchange(deployment(500, 500), WorkerSettings("h", network_memory_bytes=1 * MIB))
    assert parse_size_bytes(limited.configuration[KEY]) == LEAST_CREDIT_BYTES


def test_an_allocation_beyond_all_bounds_is_a_memory_error_and_not_the_end_of_the_machine() -> None:
    if not sys.platform.startswith("linux"):
        return
    code = (
        "from tidegate.taskmanager.spark.memory.limits import limit_memory\n"
        "limit_memory(64 << 20)\n"
        "bytearray(1 << 20)\n"
        "try:\n    bytearray(4 << 30)\n"
        "except MemoryError:\n    print('refused')\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "refused\n"
