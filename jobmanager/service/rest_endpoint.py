"""The REST endpoint: Flink's paths, with and without ``/v1``, on the JobManager's loop.

    request ─▶ user of the machine ─▶ route ─▶ role of the user ─▶ guard (no foreign page changes anything) ─▶ handler, which translates views ─▶ JSON

Every error is an object with the one key ``errors``. Bodies of GET requests are ignored: Flink's own client sends them.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web
from aiohttp.typedefs import Middleware

from tidegate.aio.admission import CHALLENGE
from tidegate.aio.driver import wall_clock_ms
from tidegate.aio.http_server import serve_http
from tidegate.aio.https import https_server
from tidegate.jobmanager.rest.archiver import archived_answers
from tidegate.jobmanager.rest.backend import Backend, Core
from tidegate.jobmanager.rest.backend_services import BackendServices
from tidegate.jobmanager.rest.handlers.checkpoints import CheckpointHandlers
from tidegate.jobmanager.rest.handlers.cluster import ClusterHandlers
from tidegate.jobmanager.rest.handlers.faults import FaultHandlers
from tidegate.jobmanager.rest.handlers.flame_graphs import FlameGraphs
from tidegate.jobmanager.rest.handlers.jars import JarHandlers
from tidegate.jobmanager.rest.handlers.jobs import JobHandlers
from tidegate.jobmanager.rest.handlers.operations import Operations
from tidegate.jobmanager.rest.handlers.processes import ProcessHandlers
from tidegate.jobmanager.rest.handlers.rescaling import RescalingHandlers
from tidegate.jobmanager.rest.handlers.snapshots import SnapshotHandlers
from tidegate.jobmanager.rest.handlers.unsupported_routes import UnsupportedRoutes
from tidegate.jobmanager.rest.handlers.vertices import VertexHandlers
from tidegate.jobmanager.rest.http.admission import RestAdmission
from tidegate.jobmanager.rest.http.bodies import MAX_BODY_BYTES, Upload, drain, read_body
from tidegate.jobmanager.rest.http.errors import RestError
from tidegate.jobmanager.rest.http.origin import OriginGuard, allowed_origin, own_names
from tidegate.jobmanager.rest.http.own_user import own_user_alone
from tidegate.jobmanager.rest.http.request import RestRequest
from tidegate.jobmanager.rest.http.timeouts import Response, runner_of
from tidegate.jobmanager.rest.http.turns import Turns
from tidegate.jobmanager.rest.openapi import Description
from tidegate.jobmanager.rest.required_roles import REST_ROLES
from tidegate.jobmanager.rest.response_cache import ResponseCache, ViewCache
from tidegate.jobmanager.rest.routes import Kept, Reply, Route, Router, plain_path
from tidegate.jobmanager.service.high_availability.standby import NO_LEADER
from tidegate.jobmanager.web.archived import archived_parts
from tidegate.jobmanager.web.pages import Pages
from tidegate.model.errors import TidegateError
from tidegate.model.ids import JobId
from tidegate.model.masking import SECRETS
from tidegate.model.options import RestOptions, WebOptions
from tidegate.model.values import Json

AnswerOf = Callable[[web.Request], Awaitable[web.StreamResponse]]
_JSON, _TEXT = "application/json; charset=UTF-8", "text/plain; charset=UTF-8"

_log = logging.getLogger(__name__)


class RestEndpoint:
    """The REST server of one JobManager."""

    def __init__(self, core: Core, outside: BackendServices, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        option = core.configuration.get
        self._core = core
        self._configuration = core.configuration
        self._allowed = allowed_origin(core.configuration)
        self._views = ViewCache(core.machine, now_ms)
        backend = Backend(
            self._views,
            core.attempts,
            core.process,
            core.configuration,
            core.snapshots,
            core.ask,
            core.place_of_client,
            core.has_savepoint_directory,
            core.watchers.watch,
            outside.dispose,
            outside.shutdown,
            now_ms,
            outside.history,
            outside.faults,
        )
        self._backend = backend
        self._operations = Operations(option(RestOptions.ASYNC_STORE_DURATION), now_ms)
        timeouts_ms = {
            Kept.GRAPH: option(RestOptions.GRAPH_CACHE_TIMEOUT),
            Kept.CHECKPOINTS: option(RestOptions.CHECKPOINT_CACHE_TIMEOUT),
        }
        self._cache = ResponseCache(timeouts_ms, now_ms)
        self._turns = Turns()
        self._guard = OriginGuard(own_names(core.configuration))
        self._admission = RestAdmission.of(outside.admission, core.configuration)
        self._runner: web.AppRunner | None = None
        description = Description()
        parts = (
            ClusterHandlers(backend),
            JobHandlers(backend),
            VertexHandlers(backend),
            FlameGraphs(backend, outside.inspector),
            CheckpointHandlers(backend),
            SnapshotHandlers(backend, self._operations),
            ProcessHandlers(backend, outside.inspector),
            FaultHandlers(backend),
            JarHandlers(outside.programs, lambda job_id: core.machine.job(job_id) is not None),
            RescalingHandlers(backend),
            UnsupportedRoutes(backend),
            description,
        )
        self.router = Router(route for part in parts for route in part.routes())
        description.describe(self.router.routes)
        assert all((route.method, route.pattern) in REST_ROLES for route in self.router.routes), "a route has no role"
        self.pages = Pages(
            backend,
            lambda status, answer: self._response(status, _encoded(answer)),
            self._answer,
            self._admission,
            lambda method, headers: self._guard.check_change(method, headers),
        )

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port, a free one when 0 was given. Raises ``ExternalError`` when it cannot bind the port."""
        self._guard = OriginGuard((host, *own_names(self._configuration)))
        first = own_user_alone(self._configuration, host, asks_users=self._admission is not None)
        self._runner = runner_of(self.application(first))
        most = self._configuration.get(RestOptions.MAX_CONNECTIONS)
        await self._runner.setup()
        try:
            tls = https_server(self._configuration, host)
            return await serve_http(self._runner, host, port, "REST endpoint", most, tls, RestOptions.PORT.key)
        except TidegateError:
            await self._runner.cleanup()
            raise

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        await self._operations.close()

    def application(self, first: Iterable[Middleware] = ()) -> web.Application:
        """Builds the aiohttp application. ``first``: middlewares that see a request before it is answered."""
        application = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[*first, self._under_our_name])
        self.pages.add_to(application)
        application.router.add_route("*", r"/{path:[\s\S]*}", self._answer)  # a dot would not match `%0A`
        return application

    @web.middleware
    async def _under_our_name(self, request: web.Request, handler: AnswerOf) -> web.StreamResponse:
        try:
            self._guard.check_host(request.headers)
            if self._core.is_deposed:
                raise RestError(503, NO_LEADER)
        except RestError as error:
            return self._response(error.status, _encoded({"errors": list(error.messages)}))
        return await handler(request)

    async def _answer(self, request: web.Request) -> web.Response:
        await self._turns.wait()
        if self._admission is not None:
            return await self._answer_user(self._admission, request)
        return await self._answer_anybody(request)

    async def _answer_user(self, admission: RestAdmission, request: web.Request) -> web.Response:
        """Answers a request if its user has the role that it needs; changes are written to the audit log."""
        try:
            route, _ = self.router.find(request.method, request.rel_url.raw_path)
            user = admission.admit(request, REST_ROLES[route.method, route.pattern])
        except RestError as error:
            return self._refused(error)
        response = await self._answer_anybody(request)
        if route.changes:
            admission.tell(user, request, response.status)
        return response

    def _refused(self, error: RestError) -> web.Response:
        response = self._response(error.status, _encoded({"errors": list(error.messages)}))
        response.headers.update(CHALLENGE if error.status == 401 else {})
        return response

    async def _answer_anybody(self, request: web.Request) -> web.Response:
        with self._turns.work():
            kept = self._cache.find(_key(request)) if request.method == "GET" else None
            if kept is not None:
                return self._response(200, kept)
        try:
            raw_path = request.rel_url.raw_path
            route, parameters = self.router.find(request.method, raw_path)
            if route.changes:
                self._guard.check_change(request.method, request.headers)
            try:
                return await self._handled(route, parameters, request)
            finally:
                if route.changes:
                    self.drop()
        except RestError as error:
            return self._response(error.status, _encoded({"errors": list(error.messages)}))
        except Exception as error:  # noqa: BLE001  (a driver: one bad answer must not end the endpoint)
            _log.exception(
                "the request %s %s was answered with status 500, since its handler failed; jobs are not affected",
                request.method,
                request.path,
            )
            return self._response(
                500, _encoded({"errors": ["Internal server error.", f"{type(error).__name__}: {error}"]})
            )

    async def _handled(self, route: Route, parameters: dict[str, str], request: web.Request) -> web.Response:
        archived = await self._archived(route, parameters, request)
        if archived is not None:
            return self._response(route.status, archived)
        rest_request = await self._rest_request(route, parameters, request)
        with self._turns.work():
            answer = route.handler(rest_request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Reply):
            return self._response(answer.status, answer.body, _TEXT)
        with self._turns.work():
            encoded = _encoded(answer)
        if route.kept is not Kept.NOT:
            self._cache.keep(route.kept, _key(request), encoded)
        return self._response(route.status, encoded)

    async def _rest_request(self, route: Route, parameters: dict[str, str], request: web.Request) -> RestRequest:
        """Builds the request for the handler, with as much of its body as the handler is to see."""
        body, upload = b"", None
        if route.uploads:
            upload = Upload(request)
        elif route.drains:
            await drain(request, self._configuration.get(WebOptions.MAX_UPLOAD))
        elif route.method != "GET":
            body = await read_body(request)
        base_url = f"{request.scheme}://{request.host}"
        return RestRequest(route.method, request.path, parameters, dict(request.query), body, base_url, upload)

    async def _archived(self, route: Route, parameters: dict[str, str], request: web.Request) -> bytes | None:
        """Returns the archived answer about a job that has ended; ``None`` when the archive has none."""
        history = self._backend.history
        if history is None or route.method != "GET" or route.changes or "jobid" not in parameters:
            return None
        job_id = JobId(parameters["jobid"])
        if not history.knows(job_id) or self._views.job(job_id) is not None:
            return None
        return await history.answer(job_id, plain_path(request.rel_url.raw_path))

    async def answers_to_archive(self, job_id: JobId) -> dict[str, str]:
        """Returns all answers to archive for an ended job: JSON by path."""
        self.drop()
        job = self._views.job(job_id)
        if job is None:
            return {}
        answers = await archived_answers(self.router, job)
        builds, causes = self.pages.parts.builds_of(job), self.pages.plots.causes
        return {**answers, **await archived_parts(job, builds, self._backend, causes)}

    def drop(self) -> None:
        """Invalidates all caches after a change by a user."""
        self._cache.drop()
        self._views.drop()
        self.pages.parts.drop()

    def _response(self, status: int, body: bytes, content_type: str = _JSON) -> web.Response:
        return Response(status=status, body=body, headers={**self._allowed, "content-type": content_type})


def _key(request: web.Request) -> str:
    """Returns the cache key of a request: path and query as they came, without ``/v1``."""
    return request.raw_path.removeprefix("/v1")


def _encoded(answer: Json) -> bytes:
    return SECRETS.encoded(answer).encode()
