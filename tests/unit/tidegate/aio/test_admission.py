"""Who calls by gRPC over TLS: a process of the cluster by its name, a user by a certificate or a token, and no other caller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tests import certificates
from tests.certificates import issue, make_authority
from tests.own import own_transport
from tidegate.aio.admission import Admission, checks_of
from tidegate.aio.audit import Audit, without_secrets
from tidegate.aio.rolling import Rolling
from tidegate.aio.rpc import start_server
from tidegate.aio.transports import transport_of
from tidegate.model.configuration import Configuration
from tidegate.pb.common_pb2 import Ack
from tidegate.pb.jobmanager_pb2 import JobRequest
from tidegate.security.keystores import Credentials, fingerprint_of, pem_of
from tidegate.security.rpc_roles import RPC_ROLES
from tidegate.security.user_file import add_user, remove_user
from tidegate.security.users import Required, Role, User

NOW, DAY = datetime.now(UTC), timedelta(days=1)
AUTHORITY = make_authority(NOW, DAY)
CLUSTER = issue(AUTHORITY, ["localhost"], NOW, DAY)
ADA, STRANGER = (issue(AUTHORITY, [name], NOW, DAY, is_user=True) for name in ("ada", "eve"))
INTERNAL, VIEWS = "tidegate.pb.JobManagerService/Heartbeat", "tidegate.pb.JobManagerClientService/ListJobs"
CANCELS = "tidegate.pb.JobManagerClientService/CancelJob"


class _Anything(grpc.GenericRpcHandler):
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[JobRequest, Ack]:
        async def answer(request: JobRequest, context: object) -> Ack:
            return Ack()

        return grpc.unary_unary_rpc_method_handler(answer, JobRequest.FromString, Ack.SerializeToString)


@asynccontextmanager
async def served(directory: Path, *, has_certificates: bool = True) -> AsyncIterator[tuple[int, Path, str]]:
    """The port, the file of users, and the token of one who may view. Ada may operate, by her certificate."""
    users = directory / "users"
    token = add_user(users, "bob", Role.VIEW)
    users.write_text(f"{users.read_text()}ada operate cert:{fingerprint_of(ADA.certificate)}\n")
    settings = {"tidegate.security.users.file": str(users), "env.log.dir": str(directory)}
    if has_certificates:
        keystore, truststore = certificates.write_stores(directory, AUTHORITY, AUTHORITY, NOW, DAY)
        settings |= {
            "security.ssl.internal.enabled": "true",
            "security.ssl.keystore": str(keystore),
            "security.ssl.internal.truststore": str(truststore),
        }
    configuration = Configuration.from_strings(settings)
    admission, transport = Admission.of(configuration), transport_of(configuration)
    server, port = await start_server(
        "127.0.0.1",
        0,
        lambda server: server.add_generic_rpc_handlers((_Anything(),)),
        "a server",
        transport=transport,
        interceptors=checks_of(admission, transport),
    )
    try:
        yield port, users, token
    finally:
        await server.stop(None)


def _calls(channel: Any, method: str) -> Any:
    """Without a serializer, which the types of gRPC ask for."""
    return channel.unary_unary(f"/{method}")


def channel_of(port: int, by: Credentials) -> grpc.aio.Channel:
    credentials = grpc.ssl_channel_credentials(pem_of([AUTHORITY.certificate]), by.key_pem(), by.chain_pem())
    names = (("grpc.ssl_target_name_override", "localhost"),)
    return grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options=names)


async def call(port: int, method: str, by: Credentials, token: str = "") -> str:
    async with channel_of(port, by) as channel:
        return await status_of(channel, method, token)


async def status_of(channel: grpc.aio.Channel, method: str, token: str = "") -> str:
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    try:
        await _calls(channel, method)(b"", metadata=metadata, timeout=20)
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


async def statuses_of(channel: grpc.aio.Channel, method: str, tokens: Mapping[Role, str]) -> dict[Role | None, str]:
    """With a token of each role, and with one that is none."""
    found: dict[Role | None, str] = {role: await status_of(channel, method, token) for role, token in tokens.items()}
    return found | {None: await status_of(channel, method, "tgu_wrong")}


def expected(needed: Required) -> dict[Role | None, str]:
    """What the table says of a method."""
    allowed = [role for role in Role if needed is not None and role.includes(needed)]
    return {role: "OK" if role in allowed else "PERMISSION_DENIED" for role in Role} | {None: "UNAUTHENTICATED"}


async def test_each_call_of_each_service_needs_its_role(tmp_path: Path) -> None:
    """The matrix, with certificates: of services that no JobManager has, too."""
    async with served(tmp_path) as (port, users, _):
        tokens = {role: add_user(users, f"the-{role.value}", role) for role in Role}
        async with channel_of(port, STRANGER) as strange, channel_of(port, CLUSTER) as own:
            for method, needed in RPC_ROLES.items():
                assert await status_of(strange, method) == "UNAUTHENTICATED", method
                assert await statuses_of(strange, method, tokens) == expected(needed), method
                assert await status_of(own, method) == "OK", method


async def test_each_call_needs_its_role_where_processes_have_the_key_of_their_user(tmp_path: Path) -> None:
    """There a process of the cluster proves nothing but its user, so what processes alone call is let in without a token."""
    async with served(tmp_path, has_certificates=False) as (port, users, _):
        tokens = {role: add_user(users, f"the-{role.value}", role) for role in Role}
        async with own_transport().open_channel(f"127.0.0.1:{port}", ()) as channel:
            for method, needed in RPC_ROLES.items():
                is_of_processes = needed is None or method.endswith("/GetBlob")
                assert await status_of(channel, method) == ("OK" if is_of_processes else "UNAUTHENTICATED"), method
                assert await statuses_of(channel, method, tokens) == expected(needed), method


async def test_who_may_call_what(tmp_path: Path) -> None:
    async with served(tmp_path) as (port, users, token):
        cluster = [await call(port, method, CLUSTER) for method in (INTERNAL, VIEWS, CANCELS)]
        assert cluster == ["OK", "OK", "OK"]
        ada = [await call(port, method, ADA) for method in (INTERNAL, VIEWS, CANCELS)]
        assert ada == ["PERMISSION_DENIED", "OK", "OK"]
        stranger = [await call(port, method, STRANGER) for method in (INTERNAL, VIEWS, CANCELS)]
        assert stranger == ["UNAUTHENTICATED"] * 3
        with_token = [await call(port, method, STRANGER, token) for method in (INTERNAL, VIEWS, CANCELS)]
        assert with_token == ["PERMISSION_DENIED", "OK", "PERMISSION_DENIED"]
        assert await call(port, VIEWS, CLUSTER, "tgu_wrong") == "UNAUTHENTICATED"
        remove_user(users, "ada")
        assert [await call(port, method, ADA) for method in (INTERNAL, VIEWS)] == ["UNAUTHENTICATED"] * 2


async def test_a_command_line_shows_the_certificate_of_its_user(tmp_path: Path) -> None:
    """It is the keystore of its configuration, which names the cluster, too: a user's certificate is for another name."""
    own = tmp_path / "ada.pem"
    own.write_bytes(ADA.key_pem() + ADA.chain_pem())
    own.chmod(0o600)
    async with served(tmp_path) as (port, _, _):
        texts = {
            "security.ssl.internal.enabled": "true",
            "security.ssl.internal.keystore": str(own),
            "security.ssl.internal.truststore": str(tmp_path / "trusted.pem"),
        }

        async def asked(method: str, **more: str) -> str:
            transport = transport_of(Configuration.from_strings({**texts, **more}))
            async with transport.open_channel(f"127.0.0.1:{port}", ()) as channel:
                try:
                    await _calls(channel, method)(b"", timeout=20)
                except grpc.aio.AioRpcError as error:
                    return error.code().name
            return "OK"

        named = {"tidegate.security.cluster-name": certificates.CLUSTER_NAME}
        assert await asked(CANCELS, **named) == "OK"
        assert await asked(INTERNAL, **named) == "PERMISSION_DENIED"
        assert await asked(CANCELS) == "UNAVAILABLE", "the certificate of the cluster is not for ada"


async def test_a_method_that_no_table_knows_is_for_nobody_but_the_cluster(tmp_path: Path) -> None:
    async with served(tmp_path) as (port, _, token):
        assert await call(port, "tidegate.pb.Unknown/Method", ADA) == "PERMISSION_DENIED"
        assert await call(port, "tidegate.pb.Unknown/Method", ADA, token) == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("s3://KEY:SECRET@bucket/savepoints?secret=x", "s3://bucket/savepoints"),
        ("/data/savepoints", "/data/savepoints"),
        ("file:///data", "file:///data"),
        ("http://[", ""),
    ],
)
def test_places_in_the_audit_log_have_no_secrets(place: str, shown: str) -> None:
    assert without_secrets(place) == shown


def test_the_audit_log_is_rotated_by_size(tmp_path: Path) -> None:
    file = tmp_path / "jobmanager.audit"
    audit = Audit(file, Rolling(max_bytes=300, keep=2))
    for number in range(20):
        audit.write(User("ada", Role.VIEW), "127.0.0.1", "PATCH", f"/jobs/{number}", "ok\nforged")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "jobmanager.audit",
        "jobmanager.audit.1",
        "jobmanager.audit.2",
    ]
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    assert all(line.startswith("{") for path in tmp_path.iterdir() for line in path.read_text().splitlines())


def test_the_audit_log_can_be_switched_off(tmp_path: Path) -> None:
    Audit(tmp_path / "x.audit", Rolling(), is_on=False).write(None, "", "GET", "/", "refused")
    assert list(tmp_path.iterdir()) == []
