"""`RestartStrategies`: what happens after a failure (PyFlink: ``pyflink.common.restart_strategy``).

A configuration here is nothing but Flink's options as texts. Times are ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]


@dataclass(frozen=True)
class RestartStrategyConfiguration:
    """``options`` are Flink's keys and texts."""

    description: str
    options: Mapping[str, str] = field(default_factory=dict)

    def get_description(self) -> str:
        return self.description


class RestartStrategies:
    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        return RestartStrategyConfiguration("Restart deactivated.", {"restart-strategy.type": "none"})

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """What the cluster is configured with."""
        return RestartStrategyConfiguration("Cluster level default restart strategy")

    @staticmethod
    def fixed_delay_restart(restart_attempts: int, delay_between_attempts: int) -> RestartStrategyConfiguration:
        return RestartStrategyConfiguration(
            f"Restart with fixed delay ({delay_between_attempts} ms). #{restart_attempts} restart attempts.",
            {
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": str(restart_attempts),
                "restart-strategy.fixed-delay.delay": f"{delay_between_attempts} ms",
            },
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int, delay_interval: int
    ) -> RestartStrategyConfiguration:
        return RestartStrategyConfiguration(
            f"Failure rate restart with maximum of {failure_rate} failures within interval {failure_interval} ms "
            f"and fixed delay {delay_interval} ms.",
            {
                "restart-strategy.type": "failure-rate",
                "restart-strategy.failure-rate.max-failures-per-interval": str(failure_rate),
                "restart-strategy.failure-rate.failure-rate-interval": f"{failure_interval} ms",
                "restart-strategy.failure-rate.delay": f"{delay_interval} ms",
            },
        )
