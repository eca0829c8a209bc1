"""Restart strategies: Flink's keys, defaults, limits and merging."""

from __future__ import annotations

import pytest

from tidegate.jobmanager.machines.random import SplitMix64
from tidegate.jobmanager.machines.scheduling.restart import (
    RestartAfter,
    RestartStrategy,
    RestartSuppressed,
    make_restart_strategy,
)
from tidegate.jobmanager.machines.settings import job_settings

R = "restart-strategy"
CHECKPOINTING = {"execution.checkpointing.interval": "1 s"}


def strategy(**texts: str) -> RestartStrategy:
    options = {f"{R}.{key.replace('__', '.').replace('_', '-')}": text for key, text in texts.items()}
    return make_restart_strategy(job_settings({**CHECKPOINTING, **options}).restart, SplitMix64(3))


def delays(it: RestartStrategy, times_ms: list[int]) -> list[int | None]:
    decisions = [it.on_failure(at) for at in times_ms]
    return [d.delay_ms if isinstance(d, RestartAfter) else None for d in decisions]


def test_the_default_depends_on_checkpointing() -> None:
    assert isinstance(make_restart_strategy(job_settings({}).restart, SplitMix64(0)).on_failure(0), RestartSuppressed)
    assert isinstance(strategy().on_failure(0), RestartAfter)


@pytest.mark.parametrize("name", ["none", "off", "disable"])
def test_none_never_restarts(name: str) -> None:
    assert strategy(type=name).on_failure(0) == RestartSuppressed("NoRestartBackoffTimeStrategy")


def test_fixed_delay_counts_for_ever() -> None:
    it = strategy(type="fixed-delay", fixed_delay__attempts="2", fixed_delay__delay="3 s")
    assert delays(it, [0, 10**9, 2 * 10**9]) == [3_000, 3_000, None]


def test_failure_rate_stops_when_more_than_n_lie_in_the_interval() -> None:
    texts = {
        "failure_rate__max_failures_per_interval": "2",
        "failure_rate__failure_rate_interval": "10 s",
        "failure_rate__delay": "1 s",
    }
    assert delays(strategy(type="failure-rate", **texts), [0, 4_000, 10_000, 13_000]) == [1_000, 1_000, 1_000, None]


def test_failure_rate_default_survives_one_failure_a_minute() -> None:
    assert delays(strategy(type="failure-rate"), [0, 60_000, 119_999]) == [1_000, 1_000, None]


def test_exponential_delay_grows_to_its_limit_and_starts_again_after_a_quiet_time() -> None:
    it = strategy(
        type="exponential-delay",
        exponential_delay__initial_backoff="1 s",
        exponential_delay__max_backoff="4 s",
        exponential_delay__backoff_multiplier="2",
        exponential_delay__reset_backoff_threshold="1 min",
        exponential_delay__jitter_factor="0",
    )
    assert delays(it, [0, 10_000, 20_000, 30_000]) == [1_000, 2_000, 4_000, 4_000]
    assert delays(it, [34_000 + 60_000]) == [1_000]


def test_exponential_delay_merges_failures_into_the_pending_restart() -> None:
    it = strategy(type="exponential-delay", exponential_delay__jitter_factor="0")
    assert it.on_failure(0) == RestartAfter(1_000)
    assert it.on_failure(400) == RestartAfter(600, merged=True)
    assert it.on_failure(1_000) == RestartAfter(1_500)


def test_jitter_stays_within_its_factor_and_follows_the_seed() -> None:
    one, two = strategy(), strategy()
    times = [i * 100_000 for i in range(50)]
    first = delays(one, times)
    assert first == delays(two, times)
    assert 900 <= (first[0] or 0) <= 1_100
    assert len(set(first[20:])) > 5
    assert all(54_000 <= (d or 0) <= 60_000 for d in first[20:])


def test_exponential_delay_gives_up_after_its_attempts() -> None:
    it = strategy(type="exponential-delay", exponential_delay__attempts_before_reset_backoff="2")
    assert delays(it, [0, 10_000, 20_000])[2] is None


def test_the_interval_is_raised_to_the_pause() -> None:
    texts = {**CHECKPOINTING, "execution.checkpointing.min-pause": "5 s"}
    assert job_settings(texts).checkpoints.interval_ms == 5_000
