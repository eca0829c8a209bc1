"""``/faults``: injects faults and lists them with what followed. Flink's API has no such path."""

from __future__ import annotations

from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.fault_service import NOT_ALLOWED, FaultKind, FaultRequest, FaultService
from tidegate.jobmanager.rest.http.errors import RestError, bad_request
from tidegate.jobmanager.rest.http.request import RestRequest
from tidegate.jobmanager.rest.responses.faults import fault_item
from tidegate.jobmanager.rest.routes import Route, reads, writes
from tidegate.model.errors import TidegateError
from tidegate.model.ids import JobId, parse_job_id
from tidegate.model.values import JsonObject

DEFAULT_DELAY_MS, DEFAULT_FOR_MS = 200, 10_000
"""Chosen, not measured: a delay that a person sees, for a few checkpoints."""
_MOST_MS = 3_600_000
"""The largest delay or duration in ms: an hour."""
_MOST = {"subtask": 2**15, "delay-ms": _MOST_MS, "for-ms": _MOST_MS, "skew-ms": _MOST_MS, "count": 1_000}


class FaultHandlers:
    """Answers ``/faults``: lists injected faults, and injects one."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        return [reads("/faults", self._list), writes("POST", "/faults", self._make, 200)]

    def _list(self, _: RestRequest) -> JsonObject:
        service = self._backend.faults
        made = [] if service is None else list(service.made())
        jobs = {job.job_id: job for job in self._backend.views.jobs()} if made else {}
        return {"allowed": service is not None, "faults": [fault_item(fault, made, jobs) for fault in reversed(made)]}

    async def _make(self, request: RestRequest) -> JsonObject:
        service = self._service()
        requested = _requested(request.json_object())
        try:
            made = await service.make(requested)
        except TidegateError as error:
            raise bad_request(f"The fault was not injected: {error.message}") from None
        return fault_item(made, [], {})

    def _service(self) -> FaultService:
        if self._backend.faults is None:
            raise RestError(403, NOT_ALLOWED)
        return self._backend.faults


def _requested(body: JsonObject) -> FaultRequest:
    try:
        kind = FaultKind(body.get("kind"))
    except ValueError:
        known = ", ".join(kind.value for kind in FaultKind)
        raise bad_request(f"kind {body.get('kind')!r} is not a kind of fault; known are {known}.") from None
    return FaultRequest(
        kind,
        _job_id(body),
        _text(body, "vertex"),
        _number(body, "subtask", 0),
        _text(body, "taskmanager"),
        _number(body, "delay-ms", DEFAULT_DELAY_MS),
        _number(body, "for-ms", DEFAULT_FOR_MS),
        _number(body, "count", 1),
        _number(body, "skew-ms", 0, least=-_MOST_MS),
    )


def _job_id(body: JsonObject) -> JobId | None:
    text = _text(body, "job")
    try:
        return parse_job_id(text) if text else None
    except ValueError as error:
        raise bad_request(f"job: {error}") from None


def _text(body: JsonObject, name: str) -> str:
    value = body.get(name) or ""
    if not isinstance(value, str):
        raise bad_request(f"{name} {value!r} is not a string.")
    return value


def _number(body: JsonObject, name: str, default: int, least: int = 0) -> int:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST[name]:
        raise bad_request(f"{name} {value!r} is not a whole number from {least} to {_MOST[name]}.")
    return value
