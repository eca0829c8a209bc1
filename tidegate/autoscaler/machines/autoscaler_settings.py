"""The options of the autoscaler (Flink's ``AutoScalerOptions``) as values."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.model.options import AlignmentMode, AutoScalerOptions, MetricAggregator


@dataclass(frozen=True, slots=True)
class AutoscalerSettings:
    """The settings of the autoscaler: times in ms, utilizations from 0 to 1. The defaults are Flink's."""

    is_enabled: bool = False
    scales: bool = True
    window_ms: int = 900_000
    stabilization_ms: int = 300_000
    utilization_target: float = 0.7
    utilization_max: float = 1.0
    utilization_min: float = 0.7 - 0.3
    scale_down_interval_ms: int = 3_600_000
    min_parallelism: int = 1
    max_parallelism: int = 200
    max_scale_down: float = 0.6
    max_scale_up: float = 100_000.0
    catch_up_ms: int = 1_800_000
    restart_ms: int = 300_000
    tracks_restarts: bool = False
    restart_limit_ms: int = 900_000
    backlog_lag_ms: int = 300_000
    observed_lag_ms: int = 30_000
    observed_switch_threshold: float = 0.15
    observed_min_observations: int = 2
    detects_ineffective: bool = False
    effectiveness_threshold: float = 0.1
    gc_pressure_threshold: float = 1.0
    heap_usage_threshold: float = 1.0
    history_count: int = 3
    history_age_ms: int = 86_400_000
    busy_aggregator: MetricAggregator = MetricAggregator.MAX
    excluded: frozenset[str] = frozenset()
    event_interval_ms: int = 1_800_000
    observes_scalability: bool = False
    scalability_observations: int = 3
    scalability_least: float = 0.5
    alignment: AlignmentMode = AlignmentMode.BALANCED


def autoscaler_settings(configuration: Configuration) -> AutoscalerSettings:
    """Reads the settings from a configuration. Raises ``ConfigurationError`` when bounds contradict each other."""
    option, options = configuration.get, AutoScalerOptions
    target, boundary = option(options.UTILIZATION_TARGET), option(options.UTILIZATION_BOUNDARY)
    most, least = option(options.UTILIZATION_MAX), option(options.UTILIZATION_MIN)
    settings = AutoscalerSettings(
        is_enabled=option(options.ENABLED),
        scales=option(options.SCALING_ENABLED),
        window_ms=option(options.METRICS_WINDOW),
        stabilization_ms=option(options.STABILIZATION_INTERVAL),
        utilization_target=target,
        utilization_max=target + boundary if most is None else most,
        utilization_min=target - boundary if least is None else least,
        scale_down_interval_ms=option(options.SCALE_DOWN_INTERVAL),
        min_parallelism=option(options.MIN_PARALLELISM),
        max_parallelism=option(options.MAX_PARALLELISM),
        max_scale_down=option(options.MAX_SCALE_DOWN_FACTOR),
        max_scale_up=option(options.MAX_SCALE_UP_FACTOR),
        catch_up_ms=option(options.CATCH_UP_DURATION),
        restart_ms=option(options.RESTART_TIME),
        tracks_restarts=option(options.TRACKS_RESTART_TIME),
        restart_limit_ms=option(options.RESTART_TIME_LIMIT),
        backlog_lag_ms=option(options.BACKLOG_LAG_THRESHOLD),
        observed_lag_ms=option(options.OBSERVED_LAG_THRESHOLD),
        observed_switch_threshold=option(options.OBSERVED_SWITCH_THRESHOLD),
        observed_min_observations=option(options.OBSERVED_MIN_OBSERVATIONS),
        detects_ineffective=option(options.EFFECTIVENESS_DETECTION),
        effectiveness_threshold=option(options.EFFECTIVENESS_THRESHOLD),
        gc_pressure_threshold=option(options.GC_PRESSURE_THRESHOLD),
        heap_usage_threshold=option(options.HEAP_USAGE_THRESHOLD),
        history_count=option(options.HISTORY_COUNT),
        history_age_ms=option(options.HISTORY_AGE),
        busy_aggregator=option(options.BUSY_TIME_AGGREGATOR),
        excluded=frozenset(text for text in option(options.EXCLUDED_VERTICES)),
        event_interval_ms=option(options.EVENT_INTERVAL),
        observes_scalability=option(options.OBSERVED_SCALABILITY),
        scalability_observations=option(options.SCALABILITY_OBSERVATIONS),
        scalability_least=option(options.SCALABILITY_LEAST),
        alignment=option(options.ALIGNMENT_MODE),
    )
    _check(settings)
    return settings


def _check(settings: AutoscalerSettings) -> None:
    options, found = AutoScalerOptions, []
    if settings.min_parallelism > settings.max_parallelism:
        found.append(
            f"{options.MIN_PARALLELISM.key} is {settings.min_parallelism}, and {options.MAX_PARALLELISM.key} is {settings.max_parallelism}"
        )
    if not settings.utilization_min <= settings.utilization_target <= settings.utilization_max:
        found.append(
            f"{options.UTILIZATION_TARGET.key} is {settings.utilization_target:g}, and not between {options.UTILIZATION_MIN.key} "
            f"({settings.utilization_min:g}) and {options.UTILIZATION_MAX.key} ({settings.utilization_max:g})"
        )
    if found:
        raise ConfigurationError(f"bad configuration: {'; '.join(found)}")
