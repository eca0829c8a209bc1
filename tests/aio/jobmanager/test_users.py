"""A JobManager with users: each path and each call, for each role."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest

from tests.aio.jobmanager.callers import NOBODY, audit_files, bearer, filled, one_of_each
from tests.aio.jobmanager.cluster import JOB, running_job_manager
from tests.own import own_transport
from tidegate.aio.rpc import open_blocking_channel, open_channel
from tidegate.jobmanager.rest.required_roles import OPEN_PATHS, REST_ROLES
from tidegate.jobmanager.service.app import Listening
from tidegate.model.errors import NotAuthenticated, NotPermitted, TidegateError
from tidegate.pb import common_pb2, jobmanager_pb2, taskmanager_pb2
from tidegate.pb.jobmanager_pb2_grpc import JobManagerClientServiceStub
from tidegate.security.rpc_roles import RPC_ROLES
from tidegate.security.user_file import remove_user
from tidegate.security.users import Role
from tidegate.wire.convert_errors import error_of_status

_ENDS_IT = {("DELETE", "/cluster"), ("tidegate.pb.JobManagerClientService/Shutdown")}


@asynccontextmanager
async def with_users(directory: Path, **settings: str) -> AsyncIterator[tuple[Listening, dict[Role, str], Path]]:
    file = directory / "users"
    tokens = one_of_each(file)
    options = {"tidegate_security_users_file": str(file), "env_log_dir": str(directory), **settings}
    async with running_job_manager(**options) as listening:
        yield listening, tokens, file


async def ask(
    port: int, method: str, path: str, headers: Mapping[str, str] | None = None, body: object = None
) -> tuple[int, Any, Mapping[str, str]]:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30)) as session,
        session.request(
            method, f"http://localhost:{port}{path}", headers=headers, json=body, allow_redirects=False
        ) as answer,
    ):
        is_stream = answer.headers.get("content-type", "").startswith("text/event-stream")
        said = None if is_stream else await answer.read()
        is_json = said is not None and "json" in answer.headers.get("content-type", "")
        return answer.status, json.loads(said) if is_json and said else said, answer.headers


async def test_each_path_needs_its_role(tmp_path: Path) -> None:
    """The matrix: no token, a wrong one, and each role, at each path."""
    async with with_users(tmp_path) as (listening, tokens, _):
        for (method, pattern), needed in REST_ROLES.items():
            path = filled(pattern)
            for headers in NOBODY:
                status, said, answered = await ask(listening.rest_port, method, path, headers)
                assert (status, list(said)) == (401, ["errors"]), (method, path, headers)
                assert answered["www-authenticate"] == 'Bearer realm="tidegate"'
            for role, token in tokens.items():
                if role.includes(needed) and (method, pattern) in _ENDS_IT:
                    continue
                status, said, _ = await ask(listening.rest_port, method, path, bearer(token))
                if role.includes(needed):
                    assert status != 401, (method, path, role)
                    assert status != 403 or "has the role" not in said["errors"][0], (method, path, role, said)
                else:
                    assert status == 403, (method, path, role)
                    assert f"needs {needed.value}" in said["errors"][0]


async def test_files_of_the_page_are_for_everybody_and_say_nothing_of_the_cluster(tmp_path: Path) -> None:
    async with with_users(tmp_path) as (listening, _, _):
        for path in ("/", "/web/app.js", "/web/session"):
            assert (await ask(listening.rest_port, "GET", path))[0] == 200
        assert (await ask(listening.rest_port, "GET", "/web/session"))[1] == {"users": True}
        assert (await ask(listening.rest_port, "GET", "/nothing"))[0] == 404
        assert (await ask(listening.rest_port, "GET", "/v1/overview"))[0] == 401
        assert (await ask(listening.rest_port, "GET", "//overview"))[0] == 401
    assert "/web/events" not in OPEN_PATHS


async def test_an_answer_that_is_kept_goes_to_nobody_else(tmp_path: Path) -> None:
    async with with_users(tmp_path) as (listening, tokens, _):
        assert (await ask(listening.rest_port, "GET", "/jobs/overview", bearer(tokens[Role.VIEW])))[0] == 200
        assert (await ask(listening.rest_port, "GET", "/jobs/overview"))[0] == 401


async def test_signing_in_sets_no_cookie_where_there_is_no_dashboard(tmp_path: Path) -> None:
    """The page keeps the token for its tab."""
    async with with_users(tmp_path) as (listening, tokens, file):
        body = {"token": tokens[Role.DATA]}
        status, said, headers = await ask(listening.rest_port, "POST", "/web/session", body=body)
        assert (status, said["role"], "set-cookie" in headers) == (200, "data", False)
        signed = bearer(tokens[Role.DATA])
        assert (await ask(listening.rest_port, "GET", "/web/session", signed))[1] == said
        assert "set-cookie" not in (await ask(listening.rest_port, "DELETE", "/web/session", signed))[2]
        remove_user(file, "the-data")
        assert (await ask(listening.rest_port, "GET", "/web/session", signed))[1] == {"users": True}


async def test_the_dashboard_has_a_cookie_that_scripts_and_foreign_pages_do_not_have(tmp_path: Path) -> None:
    dashboard = tmp_path / "dashboard"
    dashboard.mkdir()
    (dashboard / "index.html").write_text("<title>dashboard</title>")
    async with with_users(tmp_path, rest_dashboard_dir=str(dashboard)) as (listening, tokens, file):
        port = listening.rest_port
        body = {"token": tokens[Role.DATA]}
        assert (await ask(port, "POST", "/web/session", {"Origin": "http://evil.example"}, body))[0] == 403
        assert (await ask(port, "POST", "/web/session", body={"token": "wrong"}))[0] == 401
        assert (await ask(port, "POST", "/web/session", body=["wrong"]))[0] == 400
        status, said, headers = await ask(port, "POST", "/web/session", body=body)
        assert (status, said) == (200, {"users": True, "name": "the-data", "role": "data"})
        cookie = headers["set-cookie"]
        assert {"HttpOnly", "SameSite=Strict", "Path=/flink"} <= set(cookie.split("; "))
        with_cookie = {"Cookie": cookie.partition(";")[0]}
        assert (await ask(port, "GET", "/flink/overview"))[0] == 401
        assert (await ask(port, "GET", "/flink/overview", with_cookie))[0] == 200
        assert (await ask(port, "GET", "/web/session", with_cookie))[1]["role"] == "data"
        assert (await ask(port, "PATCH", f"/flink/jobs/{JOB}", {**with_cookie, "Origin": "http://evil.example"}))[
            0
        ] == 403
        remove_user(file, "the-data")
        assert (await ask(port, "GET", "/flink/overview", with_cookie))[0] == 401
        assert (await ask(port, "GET", "/web/session", with_cookie))[1] == {"users": True}
        assert 'tidegate-token=""' in (await ask(port, "DELETE", "/web/session", with_cookie))[2]["set-cookie"]


async def test_a_stream_of_changes_ends_when_its_user_is_gone(tmp_path: Path) -> None:
    async with with_users(tmp_path) as (listening, tokens, file):
        url = f"http://localhost:{listening.rest_port}/web/events"
        async with (
            aiohttp.ClientSession(headers=bearer(tokens[Role.VIEW])) as session,
            session.get(url, timeout=aiohttp.ClientTimeout(30)) as answer,
        ):
            assert answer.status == 200
            await answer.content.readline()
            remove_user(file, "the-view")
            await answer.content.read()  # to its end


def _requests() -> dict[str, Any]:
    files = (common_pb2, jobmanager_pb2, taskmanager_pb2)
    services = [service for file in files for service in file.DESCRIPTOR.services_by_name.values()]
    return {f"{service.full_name}/{method.name}": method for service in services for method in service.methods}


async def call(port: int, method: str, metadata: tuple[tuple[str, str], ...] = ()) -> TidegateError | None:
    """A call with an empty request, to its first answer. Returns the error of its status."""
    return await asyncio.to_thread(_call, port, method, metadata)


def _call(port: int, method: str, metadata: tuple[tuple[str, str], ...]) -> TidegateError | None:
    """By gRPC for threads: that for asyncio loses the status of a call that is refused while it still writes its request."""
    with open_blocking_channel(f"127.0.0.1:{port}", own_transport()) as channel:
        stream: Any = channel.stream_stream(f"/{method}")
        calling = stream(iter([b""]), metadata=metadata, timeout=10)
        try:
            next(calling, None)
        except grpc.RpcError as error:
            return _error_of(error)
        finally:
            calling.cancel()
    return None


def _error_of(error: grpc.RpcError) -> TidegateError:
    assert isinstance(error, grpc.Call), error
    trailing = [(str(key), value) for key, value in error.trailing_metadata() or ()]
    return error_of_status(int(error.code().value[0]), error.details() or "", trailing, "")


async def test_each_call_needs_its_role(tmp_path: Path) -> None:
    async with with_users(tmp_path) as (listening, tokens, _):
        for method, needed in RPC_ROLES.items():
            if "/pb.JobManager" not in method.replace("tidegate.pb", "/pb"):
                continue  # of TaskManagers
            wrong = await call(listening.rpc_port, method, (("authorization", "Bearer tgu_wrong"),))
            assert isinstance(wrong, NotAuthenticated), method
            if needed is not None and not method.endswith(
                "/GetBlob"
            ):  # processes ask for that, and without TLS cannot prove what they are
                assert isinstance(await call(listening.rpc_port, method), NotAuthenticated), method
            for role, token in tokens.items():
                may = needed is not None and role.includes(needed)
                if may and method in _ENDS_IT:
                    continue
                error = await call(listening.rpc_port, method, (("authorization", f"Bearer {token}"),))
                assert isinstance(error, NotPermitted) is not may, (method, role, error)
                assert not isinstance(error, NotAuthenticated), (method, role, error)


async def test_a_refused_call_says_what_to_do(tmp_path: Path) -> None:
    async with with_users(tmp_path) as (listening, tokens, _):
        error = await call(listening.rpc_port, "tidegate.pb.JobManagerClientService/ListJobs")
        assert error is not None
        assert "tidegate.security.token" in error.message
        token = (("authorization", f"Bearer {tokens[Role.VIEW]}"),)
        refused = await call(listening.rpc_port, "tidegate.pb.JobManagerClientService/CancelJob", token)
        assert refused is not None
        assert refused.message == "the-view has the role view; CancelJob needs operate"


async def test_the_audit_log_has_changes_and_refusals_and_no_token(tmp_path: Path) -> None:
    async with with_users(tmp_path) as (listening, tokens, _):
        port = listening.rest_port
        await ask(port, "GET", "/overview", bearer(tokens[Role.VIEW]))
        await ask(port, "PATCH", f"/jobs/{JOB}?mode=cancel", bearer(tokens[Role.VIEW]))
        await ask(port, "PATCH", f"/jobs/{JOB}?mode=cancel", bearer(tokens[Role.OPERATE]))
        async with open_channel(f"127.0.0.1:{listening.rpc_port}", own_transport()) as channel:
            stub = JobManagerClientServiceStub(channel)
            token = (("authorization", f"Bearer {tokens[Role.DEPLOY]}"),)
            await stub.CancelJob(jobmanager_pb2.JobRequest(job_id=JOB), metadata=token)
            await stub.ListJobs(jobmanager_pb2.ListJobsRequest(), metadata=token)
    [file] = audit_files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["user"], line["role"], line["what"]) for line in lines] == [
        ("the-view", "view", "PATCH"),
        ("the-operate", "operate", "PATCH"),
        ("the-deploy", "deploy", "tidegate.pb.JobManagerClientService/CancelJob"),
    ]
    assert lines[0]["result"] == f"refused: the-view has the role view; PATCH /jobs/{JOB} needs operate"
    assert lines[1]["result"] == "HTTP 404"
    assert (lines[2]["of"], lines[2]["result"].partition(":")[0]) == (JOB, "unknown-job")
    assert lines[2]["from"].startswith("ipv4:127.0.0.1:")
    assert not any(token in file.read_text() for token in tokens.values())


async def test_without_users_everything_is_as_before(tmp_path: Path) -> None:
    async with running_job_manager(env_log_dir=str(tmp_path)) as listening:
        assert (await ask(listening.rest_port, "GET", "/overview"))[0] == 200
        assert (await ask(listening.rest_port, "GET", "/web/session"))[1] == {"users": False}
        assert await call(listening.rpc_port, "tidegate.pb.JobManagerClientService/ListJobs") is None
    assert audit_files(tmp_path) == []


@pytest.mark.parametrize("text", ["nonsense", "ada root sha256:00"])
async def test_a_file_of_users_that_cannot_be_read_keeps_the_process_from_starting(tmp_path: Path, text: str) -> None:
    (tmp_path / "users").write_text(text)
    with pytest.raises(TidegateError, match="users line 1"):
        async with running_job_manager(tidegate_security_users_file=str(tmp_path / "users")):
            pass
