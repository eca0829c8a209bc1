"""Paths of Flink's API that are not supported: they answer with an error that says what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.http.errors import RestError, not_available, not_found
from tidegate.jobmanager.rest.http.request import RestRequest
from tidegate.jobmanager.rest.routes import Route

_JAVA_JOB = "Java jobs: it runs Python jobs, which `tidegate run job.py` or POST /jars/upload submits"
_PROFILER = "a profiler; its list is always empty"
_COORDINATORS = (
    "requests to operator coordinators, which Java serializes; the coordinators of sources accept none, as in Flink, and clients read the results of "
    "execute_and_collect from its sink"
)
_DATASETS = "cached data sets between jobs"

_OF_A_JOB = {
    ("POST", "/jobs/:jobid/coordinators/:operatorUid"): _COORDINATORS,
}
_OF_A_TASK_MANAGER = {
    ("POST", "/taskmanagers/:taskmanagerid/profiler"): _PROFILER,
}
_OF_THE_CLUSTER = {
    ("POST", "/jobs"): _JAVA_JOB,
    ("POST", "/jobmanager/profiler"): _PROFILER,
    ("DELETE", "/datasets/:datasetid"): _DATASETS,
}


class UnsupportedRoutes:
    """Answers Flink's paths that have no counterpart here with an error, after the checks that Flink makes first."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        refused = [
            *(_refusal(key, lambda _: None, not_available(what)) for key, what in _OF_THE_CLUSTER.items()),
            *(_refusal(key, self._backend.job, not_available(what)) for key, what in _OF_A_JOB.items()),
            *(
                _refusal(key, self._backend.task_manager, not_available(what))
                for key, what in _OF_A_TASK_MANAGER.items()
            ),
        ]
        rescaling = [
            Route("PATCH", "/jobs/:jobid/rescaling", self._rescaling, changes=True),
            Route("GET", "/jobs/:jobid/rescaling/:triggerid", self._rescaling),
        ]
        absent = [
            Route("GET", "/jobmanager/profiler/:filename", self._profile),
            Route("GET", "/taskmanagers/:taskmanagerid/profiler/:filename", self._profile),
            Route("GET", "/datasets/delete/:triggerid", self._deletion),
        ]
        return [*refused, *rescaling, *absent]

    # ---- what could only be there if it had been made before -----------------------------------------------------------

    def _profile(self, request: RestRequest) -> NoReturn:
        if "taskmanagerid" in request.parameters:
            self._backend.task_manager(request)
        raise not_found(f"There is no profile {request.parameters['filename']!r} here.")

    def _deletion(self, request: RestRequest) -> NoReturn:
        raise not_found(f"There is no operation with triggerId={request.hex_id('triggerid')}.")

    # ---- as Flink answers for a job without its AdaptiveScheduler ----------------------------------------------------

    def _rescaling(self, request: RestRequest) -> NoReturn:
        request.job_id()
        if "triggerid" in request.parameters:
            request.hex_id("triggerid")
        request.query_number("parallelism", 0)
        raise RestError(503, "Rescaling is temporarily disabled. See FLINK-12312.")


def _refusal(key: tuple[str, str], check: Callable[[RestRequest], object], error: RestError) -> Route:
    """Creates a route that first checks the request and then refuses it with ``error``."""

    def refuse(request: RestRequest) -> NoReturn:
        check(request)
        raise RestError(error.status, *error.messages)

    method, pattern = key
    return Route(method, pattern, refuse, changes=method != "GET", drains=method == "POST")
