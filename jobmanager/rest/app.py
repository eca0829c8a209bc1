"""The REST endpoint: Flink's paths, with and without ``/v1``, on the JobManager's loop.

What is here answers from the machine's views. Every other path is 404 in Flink's error shape: an object with the one key
``errors``. Bodies of GET requests are read and ignored, as Flink's own client sends them.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from typing import Any, Protocol

from aiohttp import web

from jobmanager.machines.views import ClusterView, JobView
from jobmanager.rest import answers
from jobmanager.rest.checkpoint_answers import checkpoints_answer
from tidegate.aio.driver import wall_clock_ms
from tidegate.aio.rpc import port_error
from tidegate.model.configuration import Configuration
from tidegate.model.ids import JobId, parse_job_id
from tidegate.model.options import CheckpointingOptions

_log = logging.getLogger(__name__)
_Handler = Callable[[web.Request], Any]
_HEADERS = {"access-control-allow-origin": "*", "content-type": "application/json; charset=UTF-8"}


class Views(Protocol):
    """What is asked of the machine."""

    def job(self, job_id: JobId) -> JobView | None: ...
    def jobs(self) -> list[JobView]: ...
    def cluster(self) -> ClusterView: ...


class RestError(Exception):
    """An answer with this HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RestEndpoint:
    """Serves one JobManager."""

    def __init__(self, views: Views, metrics_of: answers.MetricsOf, configuration: Configuration) -> None:
        self._views = views
        self._metrics_of = metrics_of
        self._configuration = configuration
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, which was found when 0 was given. Raises ``ExternalError`` when it cannot be had."""
        self._runner = web.AppRunner(self._application(), access_log=None)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, reuse_address=True).start()
        except OSError as error:
            await self._runner.cleanup()
            why = os.strerror(error.errno) if error.errno else str(error)
            raise port_error(host, port, "REST endpoint", why) from None
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application()
        routes: dict[str, _Handler] = {
            "/config": lambda _: answers.config_answer(wall_clock_ms()),
            "/overview": lambda _: answers.overview_answer(self._views.cluster(), self._views.jobs()),
            "/jobs/overview": lambda _: answers.jobs_overview_answer(self._views.jobs(), wall_clock_ms()),
            "/jobs/{job}": lambda request: answers.job_answer(self._job(request), self._metrics_of, wall_clock_ms()),
            "/jobs/{job}/checkpoints": self._checkpoints,
            "/taskmanagers": lambda _: answers.task_managers_answer(self._views.cluster(), self._views.jobs()),
        }
        for path, handler in routes.items():
            for prefix in ("", "/v1"):
                application.router.add_get(prefix + path, self._answering(handler), allow_head=False)
        application.router.add_route("*", "/{path:.*}", self._answering(_not_found))
        return application

    def _answering(self, handler: _Handler) -> Callable[[web.Request], Any]:
        async def answer(request: web.Request) -> web.Response:
            try:
                return _json(200, handler(request))
            except RestError as error:
                return _json(error.status, {"errors": [str(error)]})
            except Exception as error:  # noqa: BLE001  (a driver: one bad answer must not end the endpoint)
                _log.exception("%s %s failed", request.method, request.path)
                return _json(500, {"errors": ["Internal server error.", f"{type(error).__name__}: {error}"]})

        return answer

    def _job(self, request: web.Request) -> JobView:
        try:
            job_id = parse_job_id(request.match_info["job"])
        except ValueError as error:
            raise RestError(400, str(error)) from None
        job = self._views.job(job_id)
        if job is None:
            raise RestError(404, f"Job {job_id} not found")
        return job

    def _checkpoints(self, request: web.Request) -> dict[str, Any]:
        job = self._job(request)
        if CheckpointingOptions.INTERVAL.key not in job.configuration:
            raise RestError(404, f"Checkpointing was not enabled for job {job.job_id}.")
        return checkpoints_answer(job.checkpoints)


def _not_found(request: web.Request) -> Any:
    if request.method == "GET":
        raise RestError(404, f"Unable to load requested file {request.path}.")
    raise RestError(404, f"Not found: {request.path}")


def _json(status: int, body: Any) -> web.Response:
    return web.Response(status=status, body=json.dumps(body).encode(), headers=_HEADERS)
