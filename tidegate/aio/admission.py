"""Who may call what by gRPC, where a cluster has users: looked at in one place, before each call.

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
"""With each answer 401 by HTTP."""
_BEARER = "Bearer "
_SUBJECTS = ("job_id", "path", "target_directory", "task_manager_id", "key", "name")
CLUSTER = User("(process of the cluster)", Role.DEPLOY)
"""Who a process of the cluster is in the audit log."""

HOW_TO = (
    f"set {SecurityOptions.TOKEN.key} (variable TIDEGATE_SECURITY_TOKEN) or {SecurityOptions.TOKEN_FILE.key}; "
    "`tidegate security add-user` makes tokens"
)


@dataclass(frozen=True, slots=True)
class Admission:
    """``users`` as their file is now. ``own_token``: of the programs that this process runs for users who may do that."""

    users: Reloaded[Users]
    audit: Audit
    own_token: str = ""

    @staticmethod
    def of(configuration: Configuration, own_token: str = "") -> Admission | None:
        """``None``: there are no users. Raises ``ConfigurationError``."""
        users = users_of(configuration)
        return None if users is None else Admission(users, Audit.of(configuration), own_token)

    def admit_bearer(self, header: str | None, needed: Role, what: str, source: str) -> None:
        """``header``: ``Authorization`` of a request by HTTP. Raises ``NotAuthenticated`` or ``NotPermitted``, which the audit log tells as well."""
        user = None
        try:
            if header is None:
                raise NotAuthenticated("this cluster has users: send the token of one as `Authorization: Bearer`")
            user = self.of_token(bearer_of(header))
            if user is None:
                raise NotAuthenticated("the token is not one of a user of this cluster")
            check_role(user, needed, what)
        except TidegateError as error:
            self.audit.write(user, source, what, "", f"refused: {error.message}")
            raise

    def of_token(self, token: str) -> User | None:
        if self.own_token and _same(token, self.own_token):
            return User("(program of the JobManager)", Role.DEPLOY)
        return self.users.get().of_token(token)


def checks_of(admission: Admission | None, transport: Transport) -> tuple[grpc.aio.ServerInterceptor, ...]:
    """What a server looks at before each call: nothing where there are no users."""
    return () if admission is None else (_Admitting(admission, transport),)


def check_role(user: User, needed: Role, what: str) -> None:
    """Raises ``NotPermitted``."""
    if not user.role.includes(needed):
        raise NotPermitted(f"{user.name} has the role {user.role.value}; {what} needs {needed.value}")


def call_metadata(configuration: Configuration) -> tuple[tuple[str, str], ...]:
    """What a client sends with each call: nothing without a token. Raises ``ConfigurationError``."""
    token = token_of(configuration)
    return () if token is None else ((AUTHORIZATION, f"{_BEARER}{token}"),)


def identified(channel: grpc.Channel, metadata: tuple[tuple[str, str], ...]) -> grpc.Channel:
    """A channel for threads whose calls say who their user is."""
    return grpc.intercept_channel(channel, _Identifying(metadata)) if metadata else channel


def bearer_of(text: str) -> str:
    """The token of an ``Authorization`` header; empty for another scheme."""
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

    def _told(self, details: Any) -> _Details:
        metadata = (*(details.metadata or ()), *self._metadata)
        wait_for_ready, compression = getattr(details, "wait_for_ready", None), getattr(details, "compression", None)
        return _Details(details.method, details.timeout, metadata, details.credentials, wait_for_ready, compression)

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return continuation(self._told(client_call_details), request)

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return continuation(self._told(client_call_details), request)

    def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return continuation(self._told(client_call_details), request_iterator)

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return continuation(self._told(client_call_details), request_iterator)


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
        """Ends the call where it is refused. Returns the function that writes its request and answer into the audit log."""
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
        is_told = user is not None and method not in READING and RPC_ROLES.get(method) is not None

        def tell(request: Any, answer: Any) -> None:
            if is_told:
                audit.write(user, source, method, _subject(request), _result(answer))

        return tell

    def _who(self, method: str, metadata: Mapping[str, object], context: Any) -> User | None:
        """Who calls; ``None`` for a process where they have no certificates of the cluster. Raises ``NotAuthenticated``."""
        given = metadata.get(AUTHORIZATION)
        if given is not None:
            user = self._admission.of_token(bearer_of(str(given)))
            if user is None:
                raise NotAuthenticated("the token is not one of a user of this cluster")
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
        raise NotAuthenticated(f"this cluster has users, and the call names none: {HOW_TO}")


def _subject(request: Any) -> str:
    """Ids and paths that a request names; nothing of a stream of them."""
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
    """The bytes that a fingerprint is of, and the names that it is for."""
    from cryptography import x509  # a cluster without TLS does without it
    from cryptography.hazmat.primitives.serialization import Encoding

    certificate = x509.load_pem_x509_certificate(pem)
    return certificate.public_bytes(Encoding.DER), _names(certificate)


@lru_cache(maxsize=256)
def _names(certificate: Any) -> frozenset[str]:
    """The first name of a certificate, as gRPC's clients of the cluster ask for it."""
    from tidegate.aio.tls_transport import name_of

    return frozenset((name_of(certificate),))
