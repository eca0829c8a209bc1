"""Registers where queryable state of jobs is served (Flink: ``KvStateLocationRegistry.java``).

    a subtask registers a state ─▶ job, name ─▶ its operator, and the place of each attempt
    a client asks for the name  ─▶ places of attempts that are current

Laws: a name belongs to one operator of a job. An address is returned only while its attempt is the current one of its subtask. Entries of
a job are removed with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.model.errors import InvalidJob
from tidegate.model.ids import AttemptId, JobId
from tidegate.model.kv_state import KvStateInfo, KvStateLocation, KvStatePlace


@dataclass(slots=True)
class _Registered:
    info: KvStateInfo
    """The description from the subtask that registered last."""
    places: dict[AttemptId, KvStatePlace] = field(default_factory=dict)


class KvStateLocationRegistry:
    """The registered queryable states, by job and name."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, dict[str, _Registered]] = {}

    def register(
        self, attempt: AttemptId, info: KvStateInfo, address: str, is_current: Callable[[AttemptId], bool]
    ) -> None:
        """Registers the state that an attempt serves at ``address``. Raises ``InvalidJob`` when another operator of the job has a state of
        that name.
        """
        of_job = self._jobs.setdefault(attempt.job_id, {})
        known = of_job.get(info.name)
        if known is not None and known.info.operator_id != info.operator_id:
            raise InvalidJob(
                f"operators '{known.info.operator}' and '{info.operator}' both have a queryable state {info.name!r}: "
                "clients could not tell which one they ask for, so give one of them another name"
            )
        if known is None:
            known = of_job[info.name] = _Registered(info)
        known.info = info
        known.places = {other: place for other, place in known.places.items() if is_current(other)}
        known.places[attempt] = KvStatePlace(info.key_groups, attempt, address)

    def names(self, job_id: JobId) -> list[str]:
        """Returns the sorted names of the job's queryable states."""
        return sorted(self._jobs.get(job_id, {}))

    def locate(self, job_id: JobId, name: str, is_current: Callable[[AttemptId], bool]) -> KvStateLocation | None:
        """Returns the description of a state and where the current attempts serve it; ``None`` for a name that no subtask has registered."""
        known = self._jobs.get(job_id, {}).get(name)
        if known is None:
            return None
        places = [place for place in known.places.values() if is_current(place.attempt)]
        return KvStateLocation(known.info, tuple(sorted(places, key=lambda place: place.key_groups)))

    def forget(self, job_id: JobId) -> None:
        """Removes all entries of a job that has ended."""
        self._jobs.pop(job_id, None)

    def check_invariants(self) -> None:
        for job_id, of_job in self._jobs.items():
            for name, known in of_job.items():
                assert known.info.name == name, (name, known.info)
                assert all(attempt.job_id == job_id for attempt in known.places), (job_id, known.places)
                assert all(place.attempt == attempt for attempt, place in known.places.items()), known.places
