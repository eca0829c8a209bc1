"""The history server: serves archives of jobs that have ended at the REST paths of their JobManager (``HistoryServer.java``).

directories of archives ─every refresh interval─▶ History ─▶ /jobs/overview, /applications/overview, /jobs/:jobid/...
"""

from __future__ import annotations

import asyncio
import html
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from tidegate.aio.admission import Admission
from tidegate.aio.driver import wall_clock_ms
from tidegate.aio.http_server import serve_http
from tidegate.aio.https import https_server
from tidegate.aio.pool import Pool
from tidegate.aio.process import Services, Shutdown
from tidegate.jobmanager.rest.history import APPLICATIONS, OVERVIEW, History
from tidegate.jobmanager.rest.http.admission import BROWSER_CHALLENGE, RestAdmission
from tidegate.jobmanager.rest.http.errors import RestError
from tidegate.jobmanager.rest.http.origin import OriginGuard, allowed_origin, own_names
from tidegate.jobmanager.rest.http.own_user import own_user_alone
from tidegate.jobmanager.rest.http.timeouts import Response, runner_of
from tidegate.jobmanager.rest.required_roles import ReadingRoles
from tidegate.jobmanager.rest.responses.cluster import dashboard_config
from tidegate.jobmanager.rest.routes import plain_path
from tidegate.jobmanager.web.files import INDEX, FileAnswers, open_files
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, TidegateError
from tidegate.model.ids import JobId
from tidegate.model.options import HistoryOptions, RestOptions, SecurityOptions
from tidegate.store.job_archives import JobArchives

AnswerOf = Callable[[web.Request], Awaitable[web.StreamResponse]]
ALL = -1
"""The value of `historyserver.archive.retained-jobs` for no limit, as in Flink."""
_ABOUT_JOBS = ("config", "jobs", "applications")
_JSON = {"content-type": "application/json; charset=UTF-8"}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Jobs that are over</title>
<style>body{{font:16px system-ui;margin:2rem}}td,th{{text-align:left;padding:.2rem 1rem .2rem 0}}</style>
<h1>Jobs that are over</h1><table><tr><th>job<th>name<th>state<th>ended{rows}</table></html>"""

_log = logging.getLogger("historyserver")


class HistoryServer:
    """Answers requests about archived jobs; changes nothing. ``admission``: ``None`` when there are no users."""

    def __init__(self, configuration: Configuration, history: History, admission: RestAdmission | None) -> None:
        self._admission = admission
        self._roles = ReadingRoles()
        self._configuration = configuration
        self._history = history
        self._guard = OriginGuard((configuration.get(HistoryOptions.ADDRESS), *own_names(configuration)))
        self._allowed = allowed_origin(configuration)
        path = configuration.get(RestOptions.DASHBOARD_DIR)
        self._dashboard = (
            FileAnswers(open_files(Path(path), RestOptions.DASHBOARD_DIR.key), {}, keep=False) if path else None
        )

    def application(self) -> web.Application:
        option = self._configuration.get
        first = own_user_alone(
            self._configuration,
            option(HistoryOptions.ADDRESS),
            asks_users=self._admission is not None,
            has_https=option(HistoryOptions.SSL_ENABLED),
        )
        application = web.Application(middlewares=[*first, self._to_whom_it_may_be_shown])
        application.router.add_get("/{path:.*}", self._answer)
        return application

    @web.middleware
    async def _to_whom_it_may_be_shown(self, request: web.Request, handler: AnswerOf) -> web.StreamResponse:
        try:
            self._guard.check_host(request.headers)
            response = await handler(request)
        except RestError as error:
            response = _json({"errors": list(error.messages)}, error.status)
            response.headers.update(BROWSER_CHALLENGE if error.status == 401 else {})
            return response
        response.headers.extend(self._allowed)
        return response

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """Answers a request. Files of the dashboard need no role; all else needs the role of that path in a JobManager.

        Raises ``RestError`` 401 or 403.
        """
        path = plain_path(request.rel_url.raw_path)
        name = path.removeprefix("/") or INDEX
        if self._dashboard is not None and name.partition("/")[0] not in _ABOUT_JOBS and self._dashboard.has(name):
            return self._dashboard.answer(request, name)
        if self._admission is not None:
            self._admission.admit(request, self._roles.of(path))
        match path.split("/")[1:]:
            case ["config"]:
                return _json(self._config())
            case ["jobs"]:
                jobs = [{"id": item["jid"], "status": item["state"]} for item in self._history.items(OVERVIEW)]
                return _json({"jobs": jobs})
            case ["jobs", "overview"]:
                return _json({"jobs": self._history.items(OVERVIEW)})
            case ["applications", "overview"]:
                return _json({"applications": self._history.items(APPLICATIONS)})
            case ["jobs" | "applications", job_id, *_]:
                return await self._of_job(JobId(job_id), path)
        return self._page() if name == INDEX else _not_found(path)

    async def _of_job(self, job_id: JobId, path: str) -> web.Response:
        try:
            body = await self._history.answer(job_id, path)
        except TidegateError as error:
            return _json({"errors": ["Internal server error.", error.message]}, 500)
        return _not_found(path) if body is None else Response(body=body, headers=_JSON)

    def _config(self) -> dict[str, object]:
        config = dashboard_config(self._configuration, wall_clock_ms())
        interval_ms = self._configuration.get(HistoryOptions.REFRESH_INTERVAL)
        features = {"web-submit": False, "web-cancel": False, "web-rescale": False, "web-history": True}
        return {**config, "refresh-interval": interval_ms, "features": features}

    def _page(self) -> web.Response:
        rows = "".join(
            f'<tr><td><a href="jobs/{job["jid"]}">{job["jid"]}</a><td>{html.escape(str(job["name"]))}'
            f"<td>{html.escape(str(job['state']))}<td>{_moment(job['end-time'])}"
            for job in self._history.items(OVERVIEW)
        )
        headers = {
            "content-type": "text/html; charset=UTF-8",
            "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
        }
        return web.Response(text=_PAGE.format(rows=rows), headers=headers)


def run(configuration: Configuration, on_ready: Callable[[int], None] = lambda _: None) -> int:
    """Runs a history server until a signal. Raises ``TidegateError`` when it cannot start."""
    return asyncio.run(serve(configuration, on_ready))


async def serve(configuration: Configuration, on_ready: Callable[[int], None]) -> int:
    """Runs a history server on a running loop until it is shut down; returns the exit code, 0."""
    services, shutdown = Services(), Shutdown()
    shutdown.catch_signals()
    try:
        on_ready(await start_history_server(configuration, services))
        await shutdown.wait()
        _log.info("shutting down: %s", shutdown.reason)
    finally:
        await services.stop_all()
    return shutdown.exit_code


async def start_history_server(configuration: Configuration, services: Services) -> int:
    """Starts a history server; returns its port.

    Raises ``ConfigurationError`` without directories, ``ExternalError`` when it cannot bind the port.
    """
    option = configuration.get
    directories = option(HistoryOptions.DIRECTORIES)
    if not directories:
        raise ConfigurationError(
            "historyserver.archive.fs.dir is not set: name the directory that JobManagers have as jobmanager.archive.fs.dir"
        )
    host, port = option(HistoryOptions.ADDRESS), option(HistoryOptions.PORT)
    tls = https_server(configuration, host, is_wanted=option(HistoryOptions.SSL_ENABLED))
    if option(HistoryOptions.SSL_ENABLED) and tls is None:
        raise ConfigurationError(
            f"{HistoryOptions.SSL_ENABLED.key} is true: SSL is not enabled for REST endpoints. Set {SecurityOptions.REST_ENABLED.key}, and the keystore"
        )
    pool = Pool(1, "archives")
    services.started(f"archives: {', '.join(directories)}", pool.close)
    history = History([JobArchives(directory) for directory in directories], pool)
    retained = option(HistoryOptions.RETAINED_JOBS)
    refreshing = asyncio.create_task(
        _refresh(history, option(HistoryOptions.REFRESH_INTERVAL), None if retained == ALL else retained)
    )
    services.started("refresh: runs", lambda: _end(refreshing))
    admission = RestAdmission.of(Admission.of(configuration), configuration, takes_passwords=True)
    runner = runner_of(HistoryServer(configuration, history, admission).application())
    await runner.setup()
    services.started("history server: up", runner.cleanup)
    bound = await serve_http(runner, host, port, "history server", tls=tls, option=HistoryOptions.PORT.key)
    _log.info("history server: port %d", bound)
    return bound


async def _refresh(history: History, interval_ms: int, retained: int | None) -> None:
    while True:
        await history.refresh(retained)
        await asyncio.sleep(interval_ms / 1000)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(" ", "seconds")


def _json(answer: object, status: int = 200) -> web.Response:
    return Response(status=status, body=json.dumps(answer, separators=(",", ":")).encode(), headers=_JSON)


def _not_found(path: str) -> web.Response:
    return _json({"errors": [f"Unable to load requested file {path[:4096]}."]}, 404)
