"""The exceptions of a job as Flink's JSON, newest first.

A failure that restarted the job is an entry with its task. The one that failed it is, as in Flink, reported by an entry of
the scheduler, without a task ("Recovery is suppressed by ..."), with the task's failure under ``concurrentExceptions``
(``RootExceptionHistoryEntry.fromGlobalFailure``).

A task that was killed because it did not end when it was cancelled is an entry as well, which says why, and where its function stood.
In Flink its TaskManager would be lost instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidegate.jobmanager.machines.settings import RestartSettings, job_settings
from tidegate.jobmanager.machines.views import AttemptView, FailureView, JobView, VertexView
from tidegate.jobmanager.rest.responses.java_throwable import exception_name, stack_trace
from tidegate.model.ids import AttemptId, TaskManagerId
from tidegate.model.options import RestartStrategyType
from tidegate.model.states import ExecutionState, JobState
from tidegate.model.values import JsonObject

_JOB_EXCEPTION = "org.apache.flink.runtime.JobException"
_NONE: Mapping[TaskManagerId, str] = {}
_Places = Mapping[AttemptId, tuple[VertexView, AttemptView]]


def exceptions(
    job: JobView,
    maximum: int,
    label_filter: Sequence[str],
    endpoints: Mapping[TaskManagerId, str] = _NONE,
    faults: Sequence[JsonObject] = (),
) -> JsonObject:
    """Returns the exception history in Flink's form. ``faults``: injected ones, oldest first.

    Failures have no labels here, so a label filter leaves none.
    """
    entries = [] if label_filter else list(_entries(job, endpoints))
    if not label_filter:
        others = (*_killed(job, _places(job), endpoints), *faults)
        entries = _with(entries, [{**one, "concurrentExceptions": []} for one in others])
    return {"exceptionHistory": {"entries": entries[:maximum], "truncated": len(entries) > maximum}}


def failures(job: JobView, maximum: int, faults: Sequence[JsonObject] = ()) -> JsonObject:
    """Returns the failures for the page: every entry says what failed where, the last one too. ``replay``: the command that runs a kept failure again."""
    places = _places(job)
    failed = [_shown(failure, places) for failure in reversed(job.failures)]
    entries = _with(failed, (*_killed(job, places, _NONE), *faults))
    return {"entries": entries[:maximum], "truncated": len(entries) > maximum}


def kept_failures(job: JobView) -> JsonObject:
    """Returns the failures of a job that were kept for `tidegate replay`, newest first, each with the command that replays it. Flink has no such path."""
    places = _places(job)
    kept: list[JsonObject] = []
    for failure in reversed(job.failures):
        if failure.error.kept_failure:
            entry = _entry(failure, places, _NONE)
            item: JsonObject = {
                "id": failure.error.kept_failure,
                "timestamp": failure.at_ms,
                "message": failure.error.message,
                "command": _replay(failure),
            }
            kept.append(item | {key: entry[key] for key in ("taskName", "taskManagerId") if key in entry})
    return {"failures": kept}


def _with(entries: list[JsonObject], others: Sequence[JsonObject]) -> list[JsonObject]:
    """Merges two lists of exception history entries, newest first. At equal times failures (the first list) come before killed tasks and injected faults
    (the second list).
    """
    return sorted([*entries, *reversed(others)], key=lambda entry: -int(entry["timestamp"])) if others else entries


def _killed(job: JobView, places: _Places, endpoints: Mapping[TaskManagerId, str]) -> Iterator[JsonObject]:
    """Yields tasks that were cancelled and had to be killed. The reason of the cancellation is an entry of its own."""
    for attempt, (_, view) in places.items():
        if view.state is ExecutionState.CANCELED and view.failure is not None:
            yield _entry(FailureView(view.end_ms or 0, view.failure, attempt), places, endpoints)


def _entries(job: JobView, endpoints: Mapping[TaskManagerId, str]) -> Iterator[JsonObject]:
    places = _places(job)
    for age, failure in enumerate(reversed(job.failures)):
        entry = _entry(failure, places, endpoints)
        is_the_end = age == 0 and job.state in (JobState.FAILING, JobState.FAILED)
        yield (
            _end_of(job, entry, has_task=failure.attempt is not None)
            if is_the_end
            else {
                **entry,
                "concurrentExceptions": [],
            }
        )


def _end_of(job: JobView, entry: JsonObject, *, has_task: bool) -> JsonObject:
    what = f"{_JOB_EXCEPTION}: Recovery is suppressed by {_strategy(job_settings(job.configuration).restart)}"
    return {
        "exceptionName": _JOB_EXCEPTION,
        "stacktrace": f"{what}\nCaused by: {entry['stacktrace']}",
        "timestamp": job.state_timestamps_ms.get(JobState.FAILED, entry["timestamp"]),
        "failureLabels": {},
        "concurrentExceptions": [entry] if has_task else [],
    }


def _entry(failure: FailureView, places: _Places, endpoints: Mapping[TaskManagerId, str]) -> JsonObject:
    entry: JsonObject = {
        "exceptionName": exception_name(failure.error),
        "stacktrace": stack_trace(failure.error),
        "timestamp": failure.at_ms,
        "failureLabels": {},
    }
    place = places.get(failure.attempt) if failure.attempt is not None else None
    if place is not None and failure.attempt is not None:
        vertex, attempt = place
        subtask = f"({failure.attempt.subtask + 1}/{vertex.parallelism})"
        entry["taskName"] = f"{vertex.name} {subtask} - execution #{failure.attempt.attempt}"
        if attempt.task_manager_id is not None:
            entry["endpoint"] = endpoints.get(attempt.task_manager_id, attempt.host)
            entry["taskManagerId"] = attempt.task_manager_id
    return entry


def _shown(failure: FailureView, places: _Places) -> JsonObject:
    entry = _entry(failure, places, _NONE)
    if failure.error.kept_failure:
        entry["replay"] = _replay(failure)
    return entry


def _replay(failure: FailureView) -> str:
    """Returns the command that runs a kept failure again."""
    return f"tidegate replay {failure.error.kept_failure}"


def _places(job: JobView) -> _Places:
    return {
        attempt.attempt: (vertex, attempt)
        for vertex in job.vertices
        for subtask in vertex.subtasks
        for attempt in (subtask.current, *subtask.earlier)
    }


def _strategy(settings: RestartSettings) -> str:
    """Returns the restart strategy as Flink's prints itself."""
    match settings.strategy:
        case RestartStrategyType.NONE:
            return "NoRestartBackoffTimeStrategy"
        case RestartStrategyType.FIXED_DELAY:
            return (
                f"FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts={settings.fixed_attempts}, "
                f"backoffTimeMS={settings.fixed_delay_ms})"
            )
        case RestartStrategyType.FAILURE_RATE:
            return (
                "FailureRateRestartBackoffTimeStrategy(FailureRateRestartBackoffTimeStrategy("
                f"failuresIntervalMS={settings.rate_interval_ms},backoffTimeMS={settings.rate_delay_ms},"
                f"maxFailuresPerInterval={settings.rate_max_failures})"
            )
        case RestartStrategyType.EXPONENTIAL_DELAY:
            return (
                f"ExponentialDelayRestartBackoffTimeStrategy(initialBackoffMS={settings.initial_backoff_ms}, "
                f"maxBackoffMS={settings.max_backoff_ms}, backoffMultiplier={settings.backoff_multiplier}, "
                f"resetBackoffThresholdMS={settings.reset_threshold_ms}, jitterFactor={settings.jitter_factor}, "
                f"attemptsBeforeResetBackoff={settings.attempts_before_reset})"
            )
