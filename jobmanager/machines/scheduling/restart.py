"""Restart strategies: whether a job may restart after a failure, and after how long.

Follows Flink's ``*RestartBackoffTimeStrategy.java``. A strategy receives every failure; its answer is a value.

- ``none``: never. ``fixed-delay``: a number of attempts in total, the count is never reset.
- ``failure-rate``: not after more than N failures within the interval.
- ``exponential-delay``: the delay grows with each attempt, with jitter, up to a limit; after a quiet time it is the
  initial one again. A failure while a restart is still pending is merged into that restart.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from tidegate.jobmanager.machines.random import SplitMix64
from tidegate.jobmanager.machines.settings import RestartSettings
from tidegate.model.options import RestartStrategyType


@dataclass(frozen=True, slots=True)
class RestartAfter:
    """The decision that the job restarts after ``delay_ms``. ``merged``: another restart is pending already, and the failure is counted with it."""

    delay_ms: int
    merged: bool = False


@dataclass(frozen=True, slots=True)
class RestartSuppressed:
    """The job must not restart. ``by``: the strategy as Flink prints it."""

    by: str


RestartDecision = RestartAfter | RestartSuppressed


class RestartStrategy(Protocol):
    """The interface of a restart strategy."""

    def on_failure(self, now_ms: int) -> RestartDecision: ...

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when its counts are impossible."""


def make_restart_strategy(settings: RestartSettings, random: SplitMix64) -> RestartStrategy:
    match settings.strategy:
        case RestartStrategyType.NONE:
            return NoRestart()
        case RestartStrategyType.FIXED_DELAY:
            return FixedDelay(settings)
        case RestartStrategyType.FAILURE_RATE:
            return FailureRate(settings)
        case RestartStrategyType.EXPONENTIAL_DELAY:
            return ExponentialDelay(settings, random)


class NoRestart:
    """Never restarts a job."""

    def on_failure(self, now_ms: int) -> RestartDecision:
        return RestartSuppressed("NoRestartBackoffTimeStrategy")

    def check_invariants(self) -> None:
        """Checks nothing: there is no state."""


class FixedDelay:
    """Restarts a job a fixed number of times, each after the same delay."""

    def __init__(self, settings: RestartSettings) -> None:
        self._settings = settings
        self._attempts = 0

    def on_failure(self, now_ms: int) -> RestartDecision:
        if self._attempts >= self._settings.fixed_attempts:
            return RestartSuppressed(
                f"FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts={self._settings.fixed_attempts}, "
                f"backoffTimeMS={self._settings.fixed_delay_ms})"
            )
        self._attempts += 1
        return RestartAfter(self._settings.fixed_delay_ms)

    def check_invariants(self) -> None:
        most = self._settings.fixed_attempts
        assert 0 <= self._attempts <= most, f"{self._attempts} restarts of {most}"


class FailureRate:
    """Restarts a job unless it fails too often within an interval."""

    def __init__(self, settings: RestartSettings) -> None:
        self._settings = settings
        self._failures_ms: deque[int] = deque()

    def on_failure(self, now_ms: int) -> RestartDecision:
        settings = self._settings
        self._failures_ms.append(now_ms)
        while self._failures_ms[0] <= now_ms - settings.rate_interval_ms:
            self._failures_ms.popleft()
        if len(self._failures_ms) > settings.rate_max_failures:
            return RestartSuppressed(
                f"FailureRateRestartBackoffTimeStrategy(failuresIntervalMS={settings.rate_interval_ms}, "
                f"backoffTimeMS={settings.rate_delay_ms}, maxFailuresPerInterval={settings.rate_max_failures})"
            )
        return RestartAfter(settings.rate_delay_ms)

    def check_invariants(self) -> None:
        times = list(self._failures_ms)
        assert times == sorted(times), f"failures are out of order: {times}"


class ExponentialDelay:
    """Restarts a job after a delay that grows with each failure."""

    def __init__(self, settings: RestartSettings, random: SplitMix64) -> None:
        self._settings = settings
        self._random = random
        self._attempts = 0
        self._backoff_ms = float(settings.initial_backoff_ms)
        self._pending_until_ms: int | None = None

    def on_failure(self, now_ms: int) -> RestartDecision:
        settings = self._settings
        pending_until_ms = self._pending_until_ms
        if pending_until_ms is not None and now_ms < pending_until_ms:
            return RestartAfter(pending_until_ms - now_ms, merged=True)
        if pending_until_ms is not None and now_ms >= pending_until_ms + settings.reset_threshold_ms:
            self._attempts, self._backoff_ms = 0, float(settings.initial_backoff_ms)
        self._attempts += 1
        if self._attempts > settings.attempts_before_reset:
            return RestartSuppressed(
                f"ExponentialDelayRestartBackoffTimeStrategy(initialBackoffMS={settings.initial_backoff_ms}, "
                f"maxBackoffMS={settings.max_backoff_ms}, backoffMultiplier={settings.backoff_multiplier}, "
                f"attemptsBeforeResetBackoff={settings.attempts_before_reset})"
            )
        delay_ms = self._with_jitter(self._backoff_ms)
        self._backoff_ms = min(self._backoff_ms * settings.backoff_multiplier, settings.max_backoff_ms)
        self._pending_until_ms = now_ms + delay_ms
        return RestartAfter(delay_ms)

    def check_invariants(self) -> None:
        least, most = self._settings.initial_backoff_ms, self._settings.max_backoff_ms
        assert min(least, most) <= self._backoff_ms <= max(least, most), f"a backoff of {self._backoff_ms} ms"
        assert (self._pending_until_ms is None) == (self._attempts == 0), f"{self._attempts} attempts, none was begun"

    def _with_jitter(self, backoff_ms: float) -> int:
        jitter_ms = backoff_ms * self._settings.jitter_factor * (2 * self._random.fraction() - 1)
        return max(0, min(round(backoff_ms + jitter_ms), self._settings.max_backoff_ms))
