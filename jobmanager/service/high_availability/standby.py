"""A standby JobManager: its REST port forwards requests to the leader, its gRPC port names the leader's address.

    browser, flink, curl ─▶ REST of a standby ─▶ REST of the leader          no leader: 503
    tidegate             ─▶ gRPC of a standby ─▶ UNAVAILABLE, with the leader's address, to which the client goes

Flink's standbys also answer from the leader's dispatcher (``LeaderRetrievalHandler.java``). Both ports are released before this process leads.
"""

from __future__ import annotations

import logging

import aiohttp
import grpc.aio
from aiohttp import web

from tidegate.aio.http_server import serve_http
from tidegate.aio.https import https_client, https_server, rest_url
from tidegate.aio.rpc import ServerContext, start_server
from tidegate.aio.transports import transport_of
from tidegate.high_availability.port import Retrieval
from tidegate.jobmanager.rest.http.admission import COOKIE
from tidegate.jobmanager.rest.http.errors import RestError
from tidegate.jobmanager.rest.http.origin import OriginGuard, allowed_origin, own_names
from tidegate.jobmanager.rest.http.own_user import own_user_alone
from tidegate.jobmanager.rest.http.timeouts import runner_of
from tidegate.jobmanager.service.high_availability.leader_lookup import LeaderLookup
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError
from tidegate.model.masking import SECRETS
from tidegate.model.options import JobManagerOptions, RestOptions, SecurityOptions, WebOptions
from tidegate.wire.leading import LEADER_METADATA

NO_CERTIFICATES = (
    "A standby passes requests on, and cannot prove by whose certificate they come: send a token as `Authorization: Bearer`, "
    "or ask the leader at {leader}."
)
NO_LEADER = "Service temporarily unavailable due to an ongoing leader election. Please refresh."
"""Flink's message for 503: its clients repeat such a request."""
CONNECT_S = 3.0
"""The timeout of a connection to the leader, in seconds. Chosen, not measured: one that takes longer has gone, and the store will name the next."""
_CHUNK_BYTES = 64 * 1024
"""How many bytes of the leader's answer are read at once: the size of a socket's buffer."""
_OF_THE_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-authorization", "content-length", "host"}
)  # fmt: skip
"""Headers of a single connection, which are not forwarded. Those of ``_OF_THE_PAGE`` concern the page that asks, which this port has checked."""
_OF_THE_PAGE = frozenset({"origin", "referer", "sec-fetch-site", "user-agent"})
_READS = frozenset({"GET", "HEAD", "OPTIONS"})

_log = logging.getLogger("jobmanager")


class Standby:
    """The servers of a standby. ``start`` never raises: a port in use belongs to the leader on the same machine."""

    def __init__(self, configuration: Configuration, retrieval: Retrieval) -> None:
        self._configuration = configuration
        self._lookup = LeaderLookup(retrieval)
        self._forwarder = Forwarder(configuration, self._lookup)
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        option = self._configuration.get
        rest = await self._forwarder.start(option(RestOptions.BIND_ADDRESS), option(RestOptions.PORT))
        own = option(JobManagerOptions.RPC_BIND_PORT)
        port_option = JobManagerOptions.RPC_PORT if own is None else JobManagerOptions.RPC_BIND_PORT
        port = option(JobManagerOptions.RPC_PORT) if own is None else own
        try:
            host = option(JobManagerOptions.BIND_HOST)
            self._server, bound = await start_server(
                host,
                port,
                self._register,
                "JobManager",
                transport=transport_of(self._configuration),
                option=port_option.key,
            )
        except ExternalError as error:
            _log.info("standby: %s", error.message)
        else:
            _log.info("standby: gRPC port %d and REST port %s lead clients to the leader", bound, rest or "-")

    async def stop(self) -> None:
        """Stops the servers; the ports are free when this returns."""
        if self._server is not None:
            await self._server.stop(0)
        await self._forwarder.stop()
        await self._lookup.close()

    def _register(self, server: grpc.aio.Server) -> None:
        server.add_generic_rpc_handlers((_Elsewhere(self._lookup),))


class _Elsewhere(grpc.GenericRpcHandler):
    """Answers every gRPC method with UNAVAILABLE and the leader's address."""

    def __init__(self, lookup: LeaderLookup) -> None:
        self._lookup = lookup

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[object, object]:
        return grpc.stream_stream_rpc_method_handler(self._refuse)

    async def _refuse(self, requests: object, context: ServerContext) -> None:
        leader = await self._lookup.leader()
        if leader is None:
            await context.abort(
                grpc.StatusCode.UNAVAILABLE, "this JobManager stands by, and no other one leads just now"
            )
        else:
            place = leader.contact.rpc
            await context.abort(
                grpc.StatusCode.UNAVAILABLE,
                f"this JobManager stands by; the one at {place} leads",
                ((LEADER_METADATA, place),),
            )


class Forwarder:
    """The REST port of a standby. It checks the origin of changes as the leader would for its own pages."""

    def __init__(self, configuration: Configuration, lookup: LeaderLookup) -> None:
        self._configuration = configuration
        self._guard = OriginGuard(own_names(configuration))
        self._scheme = rest_url(configuration, "", 0).partition(":")[0]
        self._allowed = allowed_origin(configuration)
        self._largest = configuration.get(WebOptions.MAX_UPLOAD)
        self._lookup = lookup
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port, 0 when it could not bind it."""
        asks_users = bool(self._configuration.get(SecurityOptions.USERS_FILE))  # the leader asks them
        first = own_user_alone(self._configuration, host, asks_users=asks_users)
        application = web.Application(client_max_size=self._largest, middlewares=first)
        application.router.add_route("*", r"/{path:[\s\S]*}", self._answer)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=https_client(self._configuration) or False),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        )
        self._runner = runner_of(application, shutdown_s=0)
        await self._runner.setup()
        try:
            tls = https_server(self._configuration, host)
            return await serve_http(
                self._runner, host, port, "REST endpoint of a standby", tls=tls, option=RestOptions.PORT.key
            )
        except ExternalError as error:
            _log.info("standby: %s", error.message)
            return 0

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            self._guard.check_host(request.headers)
            if request.method not in _READS:
                self._guard.check_change(request.method, request.headers)
            return await self._forwarded(request)
        except RestError as error:
            body = SECRETS.encoded({"errors": list(error.messages)}).encode()
            headers = {**self._allowed, "content-type": "application/json; charset=UTF-8"}
            return web.Response(status=error.status, body=body, headers=headers)

    async def _forwarded(self, request: web.Request) -> web.StreamResponse:
        """Forwards a request to the leader. Raises ``RestError`` 503 when there is no leader or it does not answer.

        Raises 401 when the leader refuses a user who is known by a client certificate alone, since it sees the certificate of this process.
        """
        leader = await self._lookup.leader()
        if leader is None or not leader.contact.rest or self._session is None:
            raise RestError(503, NO_LEADER)
        left_out = _OF_THE_HOP
        if self._guard.comes_from_here(request.headers):
            left_out |= _OF_THE_PAGE  # the leader, which has another name, takes it for a tool's; otherwise it refuses a GET that changes something
        headers = [(name, text) for name, text in request.headers.items() if name.lower() not in left_out]
        body = request.content if request.can_read_body else None
        try:
            async with self._session.request(
                request.method, f"{self._scheme}://{leader.contact.rest}{request.raw_path}", headers=headers, data=body,
                allow_redirects=False,
            ) as answer:  # fmt: skip
                if answer.status == 401 and _has_certificate_alone(request):
                    raise RestError(401, NO_CERTIFICATES.format(leader=f"{self._scheme}://{leader.contact.rest}"))
                return await self._passed_on(request, answer)
        except (aiohttp.ClientConnectionError, TimeoutError, ConnectionError):  # the last one: our own client has left
            raise RestError(503, NO_LEADER) from None

    async def _passed_on(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, reason=answer.reason)
        for name, text in answer.headers.items():
            if name.lower() not in _OF_THE_HOP - {"content-length"}:
                response.headers.add(name, text)
        await response.prepare(request)
        try:
            async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                await response.write(chunk)
            await response.write_eof()
        except (aiohttp.ClientError, TimeoutError):
            response.force_close()  # the status is sent already: break off the answer, as the leader did
        return response


def _has_certificate_alone(request: web.Request) -> bool:
    tls = request.get_extra_info("ssl_object")
    says_who = "Authorization" in request.headers or COOKIE in request.cookies
    return not says_who and tls is not None and bool(tls.getpeercert(binary_form=True))
