"""Groups of sources that keep together."""

from __future__ import annotations

from tidegate.jobmanager.machines.events import WatermarkReported
from tidegate.jobmanager.machines.job.watermark_groups import FORGET_MS, WatermarkGroups
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.ids import AttemptId, JobId, VertexId

JOB, OTHER = JobId("a" * 32), JobId("b" * 32)


def told(
    groups: WatermarkGroups,
    subtask: int,
    watermark_ms: int,
    *,
    now_ms: float = 0,
    group: str = "g",
    job: JobId = JOB,
    vertex: str = "1",
    attempt: int = 0,
    interval_ms: int = 100,
) -> int:
    of = AttemptId(job, VertexId(vertex * 32), subtask, attempt)
    return groups.on(WatermarkReported(of, group, watermark_ms, interval_ms), now_ms)


def test_the_lowest_of_all_sources_of_the_group_is_announced() -> None:
    groups = WatermarkGroups()
    assert told(groups, 0, 50) == 50
    assert told(groups, 1, 70) == 50
    assert told(groups, 0, 20, vertex="2") == 20
    assert told(groups, 0, 90) == 20
    assert told(groups, 0, 95, vertex="2") == 70
    assert told(groups, 0, 5, group="another") == 5
    assert told(groups, 0, 6, job=OTHER) == 6


def test_a_source_at_its_end_or_idle_holds_nobody_back() -> None:
    groups = WatermarkGroups()
    told(groups, 0, 10)
    assert told(groups, 1, END_OF_TIME) == 10
    assert told(groups, 0, END_OF_TIME) == END_OF_TIME


def test_a_new_attempt_takes_the_place_of_the_old_one() -> None:
    groups = WatermarkGroups()
    told(groups, 0, 10)
    told(groups, 1, 99)
    assert told(groups, 0, 30, attempt=1) == 30


def test_who_is_not_heard_of_is_forgotten() -> None:
    groups = WatermarkGroups()
    told(groups, 0, 10)
    told(groups, 1, 40, interval_ms=2 * FORGET_MS)
    assert told(groups, 2, 50, now_ms=FORGET_MS - 1) == 10
    assert told(groups, 2, 50, now_ms=FORGET_MS) == 40
    assert told(groups, 2, 50, now_ms=30 * FORGET_MS) == 50
    assert len(groups) == 1
    told(groups, 0, 1, now_ms=99 * FORGET_MS, job=OTHER)
    assert len(groups) == 1
