"""The routes of the page, besides those of the REST API.

    /                  our page                 /web/<file>      its scripts and styles
    /web/events        what changes             /web/settings    options with their defaults
    /web/state         what lies in a completed checkpoint
    /web/session       who is signed in, where there are users
    /web/rescale       what another parallelism would change
    /web/plots         the last quarter of an hour of a job, a vertex or a subtask
    /docs/             the documentation, where it is built
    /flink/            Flink's own dashboard, when rest.dashboard.dir names its files; what is no file of it is the REST API

Scripts and styles come from this origin alone, nothing inline, and no other page may frame ours: text of users' jobs that got
into the page as markup would do nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

from aiohttp import web

from tidegate.aio.admission import CHALLENGE
from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.http.admission import RestAdmission
from tidegate.jobmanager.rest.http.errors import RestError, bad_request, not_found
from tidegate.jobmanager.rest.required_roles import OPEN_PATHS, REST_ROLES
from tidegate.jobmanager.web.archived import found_parts
from tidegate.jobmanager.web.cluster_parts import settings
from tidegate.jobmanager.web.documentation import FOLDER, Documentation
from tidegate.jobmanager.web.files import INDEX, FileAnswers, FolderFiles, open_files
from tidegate.jobmanager.web.live import Live
from tidegate.jobmanager.web.parts import PageParts
from tidegate.jobmanager.web.plots import Plots
from tidegate.jobmanager.web.rescale_plan import rescale_plan
from tidegate.jobmanager.web.sign_in import SignIn
from tidegate.jobmanager.web.state_browser import StateBrowser
from tidegate.model.ids import parse_job_id
from tidegate.model.options import RestOptions
from tidegate.security.users import Role

STATIC = Path(__file__).parent / "static"
DASHBOARD = "/flink"
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

_log = logging.getLogger(__name__)

PageHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Pages:
    """Serves the page. ``respond``: writes JSON and errors as the REST API does; ``api``: answers a request of that API.

    ``admission``: ``None`` when there are no users.
    """

    def __init__(
        self,
        backend: Backend,
        respond: Callable[[int, object], web.Response],
        api: PageHandler,
        admission: RestAdmission | None,
        check_change: Callable[[str, Mapping[str, str]], None],
    ) -> None:
        self._backend = backend
        self._admission = admission
        self._respond = respond
        self._api = api
        self.plots = Plots(backend)
        self._states = StateBrowser(backend)
        self.parts = PageParts(backend, self.plots.causes, self.plots.findings)
        self.live = Live(backend, self.parts)
        self._files = FileAnswers(FolderFiles(STATIC), _HEADERS, keep=True)
        self._documentation = Documentation()
        path = backend.configuration.get(RestOptions.DASHBOARD_DIR)
        key = RestOptions.DASHBOARD_DIR.key
        self._dashboard = FileAnswers(open_files(Path(path), key), {}, keep=False) if path else None
        self._sessions = SignIn(admission, check_change, respond, DASHBOARD if path else None)

    def add_to(self, application: web.Application) -> None:
        """Adds the routes, before those of the REST API, which match everything."""
        routes = application.router
        self._add(routes, "/", self._index)
        self._add(routes, "/web/events", self._events)
        self._add(routes, "/web/settings", self._settings)
        self._add(routes, "/web/plots", self._plots)
        self._add(routes, "/web/rescale", self._rescale)
        self._add(routes, "/web/state", self._state)
        self._add(routes, "/web/session", self._sessions.who)
        self._add(routes, "/web/session", self._sessions.sign_in, "POST")
        self._add(routes, "/web/session", self._sessions.sign_out, "DELETE")
        self._add(routes, "/web/{name:.+}", self._file)
        self._add(routes, FOLDER, self._to_documentation)
        self._add(routes, FOLDER + "/{name:.*}", self._of_documentation)
        if self._dashboard is not None:
            self._add(routes, DASHBOARD, self._to_dashboard)
            self._add(routes, DASHBOARD + "/{path:.*}", self._of_dashboard, "*")

        async def close(_: web.Application) -> None:
            self.live.close()

        async def watch(_: web.Application) -> AsyncIterator[None]:
            looking = asyncio.create_task(self.plots.run(), name="plots")
            yield
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

        application.on_shutdown.append(close)
        application.cleanup_ctx.append(watch)

    def _add(self, routes: web.UrlDispatcher, path: str, answer: PageHandler, method: str = "GET") -> None:
        """Adds a route that requires the role of the table."""
        assert path in OPEN_PATHS or (method, path) in REST_ROLES, f"no role for {method} {path}"
        guarded = self._guarded(answer if path in OPEN_PATHS else self._admitted(answer, REST_ROLES[method, path]))
        if method == "GET":
            routes.add_get(path, guarded)
        else:
            routes.add_route(method, path, guarded)

    def _admitted(self, answer: PageHandler, needed: Role) -> PageHandler:
        async def admitted(request: web.Request) -> web.StreamResponse:
            if self._admission is not None:
                self._admission.admit(request, needed)
            return await answer(request)

        return admitted

    async def _events(self, request: web.Request) -> web.StreamResponse:
        admission = self._admission
        if admission is None:
            return await self.live.answer(request)
        return await self.live.answer(request, lambda: admission.may(request, Role.VIEW))

    async def _index(self, request: web.Request) -> web.StreamResponse:
        return self._files.answer(request, INDEX)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if not self._files.has(name):
            raise not_found(f"Unable to load requested file {request.path}.")
        return self._files.answer(request, name)

    async def _plots(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        subtask = query.get("subtask", "-1")
        try:
            return self._respond(
                200, self.plots.answer(parse_job_id(query.get("job", "")), query.get("vertex", ""), int(subtask))
            )
        except ValueError as error:
            raise bad_request(f"Cannot resolve query parameters (job, vertex, subtask): {error}") from None

    async def _rescale(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        try:
            job_id, parallelism = parse_job_id(query.get("job", "")), int(query.get("parallelism", ""))
        except ValueError as error:
            raise bad_request(f"Cannot resolve query parameters (job, parallelism): {error}") from None
        views = self._backend.views
        job = views.job(job_id)
        if job is None:
            raise not_found(f"Job {job_id} not found")
        if parallelism < 1:
            raise bad_request(f"The parallelism must be at least 1: {parallelism}.")
        return self._respond(200, rescale_plan(job, parallelism, query.get("vertex", ""), views.refusal_of))

    async def _state(self, request: web.Request) -> web.StreamResponse:
        return self._respond(200, await self._states.answer(request.query))

    async def _settings(self, request: web.Request) -> web.StreamResponse:
        text = request.query.get("job")
        if text is None:
            return self._respond(200, settings(self._backend.configuration, None))
        found = await self._settings_of(text)
        if found is None:
            raise not_found(f"Job {text} not found")
        return self._respond(200, found)

    async def _settings_of(self, text: str) -> object:
        """Returns the settings of a job of this JobManager, or of the archive; ``None`` if neither has them."""
        try:
            job_id = parse_job_id(text)
        except ValueError:
            return None
        job, history = self._backend.views.job(job_id), self._backend.history
        if job is not None:
            return settings(self._backend.configuration, job)
        kept = await found_parts(history, job_id) if history is not None else None
        return None if kept is None else kept["settings"]

    async def _to_documentation(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"location": FOLDER + "/"})

    async def _of_documentation(self, request: web.Request) -> web.StreamResponse:
        found = self._documentation.answer(request, request.match_info["name"])
        if found is None:
            raise not_found(f"Unable to load requested file {request.path}.")
        return found

    async def _to_dashboard(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"location": DASHBOARD + "/"})

    async def _of_dashboard(self, request: web.Request) -> web.StreamResponse:
        """Answers with a file of the dashboard, or with the REST API, which it asks by relative paths."""
        assert self._dashboard is not None
        name = request.match_info["path"] or INDEX
        if request.method == "GET" and self._dashboard.has(name):
            return self._dashboard.answer(request, name)
        raw_path = request.rel_url.raw_path.removeprefix(DASHBOARD)
        return await self._api(
            request.clone(rel_url=request.rel_url.with_path(raw_path, encoded=True, keep_query=True))
        )

    def _guarded(self, answer: PageHandler) -> PageHandler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            try:
                return await answer(request)
            except RestError as error:
                response = self._respond(error.status, {"errors": list(error.messages)})
                response.headers.update(CHALLENGE if error.status == 401 else {})
                return response
            except Exception as error:  # noqa: BLE001  (a driver: one bad answer must not end the endpoint)
                _log.exception("the request %s %s failed", request.method, request.path)
                return self._respond(500, {"errors": ["Internal server error.", f"{type(error).__name__}: {error}"]})

        return guarded
