"""When a job is looked at, what is waited for, and what is remembered. Which parallelism comes of it is compared with Flink's in ``test_vectors``."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tidegate.autoscaler.machines.autoscaler_settings import AutoscalerSettings, autoscaler_settings
from tidegate.autoscaler.machines.job_autoscaler import Cycle, JobAutoscaler, JobSample
from tidegate.autoscaler.machines.samples import Collected, GlobalMetrics, Topology, Vertex, VertexMetrics
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError

SETTINGS = AutoscalerSettings(
    is_enabled=True,
    window_ms=10_000,
    stabilization_ms=5_000,
    scale_down_interval_ms=0,
    restart_ms=0,
    utilization_max=0.9,
    catch_up_ms=60_000,
)
S = 1_000
BEGAN = 100 * S
SOURCE, WORK = "s" * 32, "w" * 32


class Job:
    """A source, and work that takes all of the time at ``capacity`` records per second and subtask."""

    def __init__(self, settings: AutoscalerSettings = SETTINGS, parallelism: int = 1, capacity: float = 100) -> None:
        self.settings, self.parallelism, self.capacity = settings, parallelism, capacity
        self.autoscaler = JobAutoscaler()
        self.began, self.now, self.records, self.rate = BEGAN, BEGAN, 0.0, 50.0
        self.cluster = GlobalMetrics()
        self.busy: float | None = None

    def topology(self) -> Topology:
        work = Vertex(WORK, self.parallelism, 128, {SOURCE: "REBALANCE"}, name="work")
        return Topology.of([work, Vertex(SOURCE, 1, 128, name="source")])

    def look(self) -> Cycle:
        load = min(1.0, self.rate / (self.capacity * self.parallelism)) if self.busy is None else self.busy
        work = VertexMetrics(self.records, 0, self.rate, load, load * (self.now - BEGAN) * self.parallelism)
        source = VertexMetrics(
            self.records, self.records, load=0.5, accumulated_busy_ms=(self.now - BEGAN) * 0.5, lag=0
        )
        sample = JobSample(self.began, self.topology(), Collected({SOURCE: source, WORK: work}, self.cluster))
        return self.autoscaler.on_sample(self.settings, sample, self.now)

    def after(self, seconds: float) -> Cycle:
        self.now += int(seconds * S)
        self.records += self.rate * seconds
        return self.look()

    def until(self, seconds: float, steps: int = 10) -> list[Cycle]:
        return [self.after(seconds / steps) for _ in range(steps)]

    def restart(self, parallelism: int) -> None:
        self.parallelism, self.began, self.records = parallelism, self.now, 0.0


def said(cycles: list[Cycle]) -> list[str]:
    return [text for cycle in cycles for text in cycle.said]


def test_nothing_is_decided_before_the_metrics_are_stable_and_the_window_is_full() -> None:
    job = Job()
    job.rate = 99
    first = job.until(14)
    assert all(not cycle.scaled for cycle in first)
    assert "not stable yet" in said(first)[0]
    assert "metric window of the job is not full" in said(first)[-1]
    [decided] = [cycle for cycle in job.until(4) if cycle.scaled]  # once, although the job does not show it yet
    assert decided.scaled[WORK].new == 2
    assert decided.parallelism == {SOURCE: 1, WORK: 2}


def test_what_was_decided_stays_decided_until_the_job_shows_it() -> None:
    job = Job()
    job.rate = 99
    job.until(20)
    assert job.after(1).parallelism == {SOURCE: 1, WORK: 2}
    job.restart(2)
    assert job.after(1).parallelism == {SOURCE: 1, WORK: 2}
    assert len(job.autoscaler.window) == 1, "what was measured in the old shape does not count"


def test_a_job_within_its_bounds_is_left_alone() -> None:
    job = Job(parallelism=2)
    job.rate = 140
    assert all(not cycle.scaled for cycle in job.until(60))


def test_fewer_subtasks_come_only_when_they_were_right_for_the_whole_interval() -> None:
    job = Job(replace(SETTINGS, scale_down_interval_ms=20_000), parallelism=4)
    job.rate = 20
    before = job.until(34, 34)
    assert not [cycle for cycle in before if cycle.scaled]
    assert "2 subtasks would do; that has to hold for 20 s" in " ".join(said(before))
    [decided] = [cycle for cycle in job.until(3, 3) if cycle.scaled]
    assert decided.scaled[WORK].new == 2, "60 % of the subtasks may go at once"


def test_a_peak_within_the_interval_begins_it_anew() -> None:
    job = Job(replace(SETTINGS, scale_down_interval_ms=20_000), parallelism=4)
    job.rate = 20
    job.until(30, 30)
    job.rate = 280
    job.until(12, 12)
    job.rate = 20
    assert not [cycle for cycle in job.until(22, 22) if cycle.scaled]


def test_a_vertex_that_got_no_faster_gets_no_more_subtasks() -> None:
    job = Job(replace(SETTINGS, detects_ineffective=True))
    job.rate = 99
    [first] = [cycle for cycle in job.until(17, 17) if cycle.scaled]
    job.restart(first.scaled[WORK].new)
    job.busy = 1.0  # a lock, or a database: two are as fast as one
    cycles = job.until(40, 40)
    assert not [cycle for cycle in cycles if cycle.scaled]
    assert len([text for text in said(cycles) if "had no effect" in text]) == 1, "once in half an hour"


def test_the_longest_restart_is_expected_again() -> None:
    settings = replace(SETTINGS, tracks_restarts=True, restart_ms=1_000)
    job = Job(settings)
    job.rate = 99
    job.until(17, 17)
    assert job.autoscaler.restarts.longest_ms(settings) == 1_000
    job.now += 7 * S
    job.restart(2)
    job.after(1)
    assert 7_000 <= job.autoscaler.restarts.longest_ms(settings) <= 10_000
    assert job.autoscaler.restarts.longest_ms(replace(settings, restart_limit_ms=3_000)) == 3_000
    assert job.autoscaler.restarts.longest_ms(replace(settings, tracks_restarts=False)) == 1_000


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        (GlobalMetrics(gc_pressure=0.9), "collects garbage for 90%"),
        (GlobalMetrics(heap_usage=0.97), "uses 97% of its heap"),
    ],
)
def test_nothing_is_changed_under_memory_pressure(cluster: GlobalMetrics, text: str) -> None:
    job = Job(replace(SETTINGS, gc_pressure_threshold=0.8, heap_usage_threshold=0.9))
    job.rate, job.cluster = 99, cluster
    cycles = job.until(30)
    assert not [cycle for cycle in cycles if cycle.scaled]
    assert text in " ".join(said(cycles))


def test_it_can_be_asked_for_its_opinion_only() -> None:
    job = Job(replace(SETTINGS, scales=False))
    job.rate = 99
    cycles = job.until(30)
    assert not [cycle for cycle in cycles if cycle.scaled or cycle.parallelism]
    assert "would change, and job.autoscaler.scaling.enabled is false: work 1 -> 2" in said(cycles)


def test_excluded_vertices_keep_their_parallelism() -> None:
    job = Job(replace(SETTINGS, excluded=frozenset([WORK])))
    job.rate = 99
    assert not [cycle for cycle in job.until(30) if cycle.scaled]


def test_a_source_whose_rate_is_not_known_is_said() -> None:
    job = Job()
    job.records = math.nan
    assert "source source does not report the rate at which it reads, so its job cannot be scaled" in said(job.until(5))


def test_changes_are_forgotten_by_number_and_age() -> None:
    settings = replace(SETTINGS, history_count=2, history_age_ms=1_000_000)
    job = Job(settings)
    for rate in (99, 199, 399):
        job.rate = rate
        [decided] = [cycle for cycle in job.until(17, 17) if cycle.scaled]
        job.restart(decided.scaled[WORK].new)
    job.after(1)
    assert len(job.autoscaler.history.of(WORK)) == 2
    job.now += 2_000_000
    job.look()
    assert list(job.autoscaler.history) == []


def test_the_defaults_are_flinks() -> None:
    assert autoscaler_settings(Configuration.from_strings({})) == AutoscalerSettings()


def test_bounds_that_contradict_are_one_error() -> None:
    texts = {"job.autoscaler.vertex.min-parallelism": "300", "job.autoscaler.utilization.max": "0.5"}
    with pytest.raises(ConfigurationError) as raised:
        autoscaler_settings(Configuration.from_strings(texts))
    assert "job.autoscaler.vertex.min-parallelism is 300, and job.autoscaler.vertex.max-parallelism is 200" in str(
        raised.value
    )
    assert "job.autoscaler.utilization.target is 0.7, and not between" in str(raised.value)
