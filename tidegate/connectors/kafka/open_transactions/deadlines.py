"""How long a transaction must be able to stay open. No I/O.

opened ── interval ──▶ prepared ── the process dies ── noticed ── pause before the restart ──▶ committed by its successor
"""

from __future__ import annotations

from tidegate.connectors.kafka.client import MAX_TRANSACTION_TIMEOUT_KEY, TRANSACTION_TIMEOUT_KEY
from tidegate.model.configuration import Configuration
from tidegate.model.errors import InvalidJob
from tidegate.model.options import (
    CheckpointingOptions,
    HeartbeatOptions,
    RestartStrategyOptions,
    RestartStrategyType,
)

OPEN_TIMEOUT_MS = 900_000
"""The sink's default of ``transaction.timeout.ms``: the most that a broker allows by default (``transaction.max.timeout.ms``)."""


def least_timeout_ms(configuration: Configuration) -> int:
    """Returns how long a transaction may wait for its commit, in ms: until the next checkpoint, and over one restart."""
    interval_ms = configuration.get(CheckpointingOptions.INTERVAL) or 0
    pause_ms = max(interval_ms, configuration.get(CheckpointingOptions.MIN_PAUSE))
    return pause_ms + configuration.get(HeartbeatOptions.TIMEOUT) + _longest_delay_ms(configuration)


def check_deadline(timeout_ms: int, configuration: Configuration) -> None:
    """Raises ``InvalidJob`` when a transaction would time out while its job restarts: the broker would abort records that a checkpoint contains."""
    least_ms = least_timeout_ms(configuration)
    if timeout_ms > least_ms:
        return
    interval_ms = configuration.get(CheckpointingOptions.INTERVAL) or 0
    raise InvalidJob(
        f"{TRANSACTION_TIMEOUT_KEY} of the Kafka sink is {timeout_ms} ms, but a transaction may stay open for {least_ms} ms: for the interval "
        f"of checkpoints ({interval_ms} ms) and until a failed job is running again ({HeartbeatOptions.TIMEOUT.key} and the longest pause of the "
        "restart strategy). The broker would abort it, and its records would be lost: raise it with "
        f"set_property({TRANSACTION_TIMEOUT_KEY!r}, ...), and {MAX_TRANSACTION_TIMEOUT_KEY} of the broker where that is less; or set no "
        "transaction naming strategy, so that nothing is open in between"
    )


def _longest_delay_ms(configuration: Configuration) -> int:
    options = RestartStrategyOptions
    match configuration.get(options.TYPE):
        case RestartStrategyType.NONE:
            return 0
        case RestartStrategyType.FIXED_DELAY:
            return configuration.get(options.FIXED_DELAY)
        case RestartStrategyType.FAILURE_RATE:
            return configuration.get(options.RATE_DELAY)
        case _:
            return configuration.get(options.EXPONENTIAL_MAX)
