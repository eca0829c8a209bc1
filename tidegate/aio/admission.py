"""Authenticates and authorizes each gRPC call of a cluster with users, before its handler runs.

call ─▶ token in its metadata ─▶ a user         ─▶ has the role of the method?
     ├▶ certificate of a user   ─▶ a user       ─╯
     ├▶ certificate of the cluster ─▶ a process of the cluster ─▶ may call everything
     └▶ none of these: refused. Without internal TLS a process of the cluster may call what processes call: it has the key of the user (``own_transport``),
        or proves nothing (``tidegate.security.insecure``)

A generation is public, and proves nothing. A process of the cluster has a certificate with the same name as ours, of an authority that is believed.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import grpc.aio
from google.protobuf.message import Message

from tidegate.aio.audit import DONE, Audit, without_secrets
from tidegate.aio.handlers import RpcCall, wrapped
from tidegate.aio.rpc import abort
from tidegate.model.configuration import Configuration
from tidegate.model.errors import NotAuthenticated, NotPermitted, TidegateError
from tidegate.model.options import SecurityOptions
from tidegate.security.rpc_roles import READING, RPC_ROLES
from tidegate.security.user_file import token_of, users_of
from tidegate.security.users import Role, User, Users

if TYPE_CHECKING:
    from tidegate.aio.transport import Transport
    from tidegate.security.reloading import Reloaded

AUTHORIZATION = "authorization"
CHALLENGE = {"www-authenticate": 'Bearer realm="tidegate"'}
"""HTTP headers of each answer 401."""
_BEARER = "Bearer "
_SUBJECTS = ("job_id", "path", "target_directory", "task_manager_id", "key", "name")
CLUSTER = User("(process of the cluster)", Role.DEPLOY)
"""The name under which the audit log shows a process of the cluster."""

HOW_TO = (
    f"set {SecurityOptions.TOKEN.key} (variable TIDEGATE_SECURITY_TOKEN) or {SecurityOptions.TOKEN_FILE.key}; "
    "`tidegate security add-user` makes tokens"
)


@dataclass(frozen=True, slots=True)
class Admission:
    """Checks who a caller is and whether its role allows the call. ``users``: as their file is now. ``own_token``: the token of programs that this
    process runs for users who may do that."""

    users: Reloaded[Users]
    audit: Audit
    own_token: str = ""

    @staticmethod
    def of(configuration: Configuration, own_token: str = "") -> Admission | None:
        """Creates the check of a configuration; ``None`` where it has no users. Raises ``ConfigurationError``."""
        users = users_of(configuration)
        return None if users is None else Admission(users, Audit.of(configuration), own_token)

    def admit_bearer(self, header: str | None, needed: Role, what: str, source: str) -> None:
        """Checks the ``Authorization`` header of an HTTP request. Raises ``NotAuthenticated`` or ``NotPermitted``, which the audit log records too."""
        user = None
        try:
            if header is None:
                raise NotAuthenticated(
                    "this cluster admits only its users: send a user's token as `Authorization: Bearer`"
                )
            user = self.of_token(bearer_of(header))
            if user is None:
                raise NotAuthenticated("the token belongs to no user of this cluster")
            check_role(user, needed, what)
        except TidegateError as error:
            self.audit.write(user, source, what, "", f"refused: {error.message}")
            raise

    def of_token(self, token: str) -> User | None:
        if self.own_token and _same(token, self.own_token):
            return User("(program of the JobManager)", Role.DEPLOY)
        return self.users.get().of_token(token)


def checks_of(admission: Admission | None, transport: Transport) -> tuple[grpc.aio.ServerInterceptor, ...]:
    """Returns the interceptors that check each call at a gRPC server; none where there are no users."""
    return () if admission is None else (_Admitting(admission, transport),)


def check_role(user: User, needed: Role, what: str) -> None:
    """Checks that the role of a user includes the needed one. Raises ``NotPermitted``."""
    if not user.role.includes(needed):
        raise NotPermitted(f"{user.name} has the role {user.role.value}; {what} needs {needed.value}")


def call_metadata(configuration: Configuration) -> tuple[tuple[str, str], ...]:
    """Returns the gRPC metadata that a client sends with each call: its token, or nothing without one. Raises ``ConfigurationError``."""
    token = token_of(configuration)
    return () if token is None else ((AUTHORIZATION, f"{_BEARER}{token}"),)


def identified(channel: grpc.Channel, metadata: tuple[tuple[str, str], ...]) -> grpc.Channel:
    """Returns a blocking gRPC channel that adds the metadata of its user to each call."""
    return grpc.intercept_channel(channel, _Identifying(metadata)) if metadata else channel


def bearer_of(text: str) -> str:
    """Returns the token of a ``Bearer`` ``Authorization`` header; empty for another scheme."""
    scheme, _, token = text.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class _Details(NamedTuple):
    method: str
    timeout: float | None
    metadata: Any
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class _Identifying(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    def __init__(self, metadata: tuple[tuple[str, str], ...]) -> None:
        self._metadata = metadata

    def _with_metadata(self, details: Any) -> _Details:
        metadata = (*(details.metadata or ()), *self._metadata)
        wait_for_ready, compression = getattr(details, "wait_for_ready", None), getattr(details, "compression", None)
        return _Details(details.method, details.timeout, metadata, details.credentials, wait_for_ready, compression)

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return continuation(self._with_metadata(client_call_details), request)

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return continuation(self._with_metadata(client_call_details), request)

    def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return continuation(self._with_metadata(client_call_details), request_iterator)

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return continuation(self._with_metadata(client_call_details), request_iterator)


class _Admitting(grpc.aio.ServerInterceptor):
    def __init__(self, admission: Admission, transport: Transport) -> None:
        self._admission, self._transport = admission, transport

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method.removeprefix("/")
        metadata = {str(key): value for key, value in handler_call_details.invocation_metadata or ()}

        @asynccontextmanager
        async def admitted(request: Any, context: Any) -> AsyncIterator[RpcCall]:
            call, tell = RpcCall(request), await self._begin(method, metadata, context)
            yield call
            tell(request, call.answer)

        return None if handler is None else wrapped(handler, admitted)

    async def _begin(self, method: str, metadata: Mapping[str, object], context: Any) -> Callable[[Any, Any], None]:
        """Checks a call and aborts it where it is refused. Returns the function that writes its request and answer into the audit log."""
        audit, source = self._admission.audit, context.peer()
        user: User | None = None
        try:
            user = self._who(method, metadata, context)
            needed = RPC_ROLES.get(method)
            if user is not None and user is not CLUSTER:
                if needed is None:
                    raise NotPermitted(f"{method} is for processes of the cluster, not for users")
                check_role(user, needed, method.rpartition("/")[2])
        except TidegateError as error:
            audit.write(user, source, method, "", f"refused: {error.message}")
            await abort(context, error)
        is_audited = user is not None and method not in READING and RPC_ROLES.get(method) is not None

        def tell(request: Any, answer: Any) -> None:
            if is_audited:
                audit.write(user, source, method, _subject(request), _result(answer))

        return tell

    def _who(self, method: str, metadata: Mapping[str, object], context: Any) -> User | None:
        """Returns the user who makes a call; ``None`` for a process of a cluster without internal TLS. Raises ``NotAuthenticated``."""
        given = metadata.get(AUTHORIZATION)
        if given is not None:
            user = self._admission.of_token(bearer_of(str(given)))
            if user is None:
                raise NotAuthenticated("the token belongs to no user of this cluster")
            return user
        tls = self._transport.tls
        if tls is not None:
            credentials = tls.get().credentials
            for pem in context.auth_context().get("x509_pem_cert", ()):
                der, names = _read_certificate(pem)
                user = self._admission.users.get().of_certificate(der)
                if user is not None:
                    return user
                if credentials is not None and names & _names(credentials.certificate):
                    return CLUSTER
        elif RPC_ROLES.get(method, Role.DEPLOY) is None or method.endswith("/GetBlob"):
            return None
        raise NotAuthenticated(f"this cluster admits only its users, and the call has no token: {HOW_TO}")


def _subject(request: Any) -> str:
    """Returns the ids and paths that a request names, for the audit log; nothing for a stream of requests."""
    names = tuple(field.name for field in request.DESCRIPTOR.fields) if isinstance(request, Message) else ()
    found = [without_secrets(str(getattr(request, name))) for name in _SUBJECTS if name in names]
    if "graph" in names:
        found.append(request.graph.job_id)
    return " ".join(filter(None, found))


def _result(answer: Any) -> str:
    has_error = answer is not None and "error" in answer.DESCRIPTOR.fields_by_name and answer.HasField("error")
    return f"{answer.error.code}: {answer.error.message}" if has_error else DONE


def _same(token: str, other: str) -> bool:
    return hmac.compare_digest(token.encode(errors="surrogatepass"), other.encode())


@lru_cache(maxsize=256)
def _read_certificate(pem: bytes) -> tuple[bytes, frozenset[str]]:
    """Parses a PEM certificate into its DER bytes, of which fingerprints are made, and the names for which it is valid."""
    from cryptography import x509  # a cluster without TLS does without it
    from cryptography.hazmat.primitives.serialization import Encoding

    certificate = x509.load_pem_x509_certificate(pem)
    return certificate.public_bytes(Encoding.DER), _names(certificate)


@lru_cache(maxsize=256)
def _names(certificate: Any) -> frozenset[str]:
    """Returns the first name of a certificate, which the gRPC clients of the cluster ask for."""
    from tidegate.aio.tls_transport import name_of

    return frozenset((name_of(certificate),))
