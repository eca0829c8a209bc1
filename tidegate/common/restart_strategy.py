"""`RestartStrategies`: how a job restarts after a failure (PyFlink: ``pyflink.common.restart_strategy``).

A configuration here is nothing but Flink's options as texts. Times are ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from tidegate.model.units import parse_duration_ms

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]


@dataclass(frozen=True)
class RestartStrategyConfiguration:
    """A restart strategy as Flink's options, with a description (PyFlink: ``RestartStrategyConfiguration``)."""

    description: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def get_description(self) -> str:
        """Returns a sentence that describes the strategy."""
        return self.description

    def _length(self, key: str) -> timedelta:
        return timedelta(milliseconds=parse_duration_ms(self.options[key]))


class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
    """The strategy without restarts: the first failure fails the job."""


class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
    """The restart strategy of the cluster's configuration."""


class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
    """Restarts the job a limited number of times, each after the same delay."""

    def get_restart_attempts(self) -> int:
        """Returns how many times the job is restarted before it fails."""
        return int(self.options["restart-strategy.fixed-delay.attempts"])

    def get_delay_between_attempts_interval(self) -> timedelta:
        """Returns the delay before each restart."""
        return self._length("restart-strategy.fixed-delay.delay")


class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
    """Restarts the job while the rate of failures stays below a limit."""

    def get_max_failure_rate(self) -> int:
        """Returns the most failures in the interval with which the job is restarted."""
        return int(self.options["restart-strategy.failure-rate.max-failures-per-interval"])

    def get_failure_interval(self) -> timedelta:
        """Returns the interval in which failures are counted."""
        return self._length("restart-strategy.failure-rate.failure-rate-interval")

    def get_delay_between_attempts_interval(self) -> timedelta:
        """Returns the delay before each restart."""
        return self._length("restart-strategy.failure-rate.delay")


class RestartStrategies:
    """Creates restart strategies for ``env.set_restart_strategy`` (PyFlink: ``RestartStrategies``)."""

    NoRestartStrategyConfiguration = NoRestartStrategyConfiguration
    FallbackRestartStrategyConfiguration = FallbackRestartStrategyConfiguration
    FixedDelayRestartStrategyConfiguration = FixedDelayRestartStrategyConfiguration
    FailureRateRestartStrategyConfiguration = FailureRateRestartStrategyConfiguration

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """Returns the strategy without restarts: the first failure fails the job."""
        return NoRestartStrategyConfiguration("Restart deactivated.", {"restart-strategy.type": "none"})

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """Returns the restart strategy of the cluster's configuration."""
        return FallbackRestartStrategyConfiguration("Cluster level default restart strategy")

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | timedelta
    ) -> RestartStrategyConfiguration:
        """Returns the strategy that restarts ``restart_attempts`` times, each after the same delay (milliseconds or ``timedelta``)."""
        delay_between_attempts = _ms(delay_between_attempts)
        return FixedDelayRestartStrategyConfiguration(
            f"Restart with fixed delay ({delay_between_attempts} ms). #{restart_attempts} restart attempts.",
            {
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": str(restart_attempts),
                "restart-strategy.fixed-delay.delay": f"{delay_between_attempts} ms",
            },
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int | timedelta, delay_interval: int | timedelta
    ) -> RestartStrategyConfiguration:
        """Returns the strategy that restarts after a delay, unless there were more than ``failure_rate`` failures within an interval (milliseconds or
        ``timedelta``)."""
        failure_interval, delay_interval = _ms(failure_interval), _ms(delay_interval)
        return FailureRateRestartStrategyConfiguration(
            f"Failure rate restart with maximum of {failure_rate} failures within interval {failure_interval} ms "
            f"and fixed delay {delay_interval} ms.",
            {
                "restart-strategy.type": "failure-rate",
                "restart-strategy.failure-rate.max-failures-per-interval": str(failure_rate),
                "restart-strategy.failure-rate.failure-rate-interval": f"{failure_interval} ms",
                "restart-strategy.failure-rate.delay": f"{delay_interval} ms",
            },
        )


def _ms(length: int | timedelta) -> int:
    return length // timedelta(milliseconds=1) if isinstance(length, timedelta) else length
