"""Another user of the machine, or another machine, gets nothing from a cluster with the defaults, and nothing of ours by taking a port before it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.another_network import another_network, missing
from tests.e2e.cluster import REPOSITORY, Cluster, run_cli
from tests.e2e.counts_run import CountsRun
from tests.e2e.waiting import HANG_LIMIT_S
from tidegate.aio.homes import home_of
from tidegate.aio.local_users import LocalUsers
from tidegate.model.configuration import Configuration
from tidegate.security.own import own_key

becomes_another = pytest.mark.skipif(
    os.geteuid() != 0 or not LocalUsers.can_tell(),
    reason="only root can become another user, and only Linux tells users",
)
NO_NETWORK = missing()
HELLO = b"\x16\x03"
"""How TLS begins: a client says this before the server has proved anything."""


@becomes_another
def test_no_port_and_no_file_answers_another_user(cluster: Cluster, tmp_path: Path) -> None:
    run = CountsRun(tmp_path, seconds=8, rows=20_000)
    watch = run.submit(cluster)
    watch.wait_checkpoints(1)
    assert cluster.job_manager is not None
    key = own_key(home_of(Configuration.from_strings({}))).path
    told: dict[str, Any] = {
        "rest": cluster.rest_port,
        "rpc": cluster.port,
        "ports": sorted(listening(cluster)),
        "files": [str(key), str(key.parent), str(cluster.tmp)],
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.other_user", json.dumps(told)],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=HANG_LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for request, answer in found["rest"].items():
        assert answer.startswith('403 {"errors":["Refused: this port is for the user with the id 0'), (request, answer)
    assert "speaks TLS" in found["grpc"]["plain"]
    assert "does not have the key of this user" in found["grpc"]["own key"]
    assert found["files"] == dict.fromkeys(told["files"], "PermissionError")
    assert len(told["ports"]) >= 6
    for words, answer in found["ports"].items():
        assert tells_nothing(answer), (words, answer)
    watch.wait_finished(HANG_LIMIT_S)
    run.assert_exact()


def listening(cluster: Cluster) -> set[int]:
    """The TCP ports of all processes of the cluster."""
    found: set[int] = set()
    for process in (cluster.job_manager, *cluster.task_managers):
        assert process is not None
        for member in process.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                sockets = member.net_connections("tcp")
                found |= {one.laddr.port for one in sockets if one.status == psutil.CONN_LISTEN}
    return found


def tells_nothing(answer: str) -> bool:
    """Nothing, a refusal, an alert of TLS, or that the words were not understood, which py4j says with a `!`."""
    return not answer or " 403 " in answer or " 400 " in answer or answer.startswith(("\x15\x03", "!"))


@pytest.mark.skipif(bool(NO_NETWORK), reason=NO_NETWORK)
def test_no_port_is_reached_from_another_network(cluster: Cluster, tmp_path: Path) -> None:
    run = CountsRun(tmp_path, seconds=3, rows=3_000)
    watch = run.submit(cluster)
    watch.wait_checkpoints(1)
    with another_network() as elsewhere, socket.create_server(("0.0.0.0", 0)) as open_to_all:
        ours = open_to_all.getsockname()[1]
        found = elsewhere.scan([ours, *listening(cluster)])
    assert found.pop(ours) == "connected", "it could reach ports of this machine"
    assert len(found) >= 6
    assert found == dict.fromkeys(found, "ConnectionRefusedError")
    watch.wait_finished(HANG_LIMIT_S)


def test_who_takes_the_port_first_hears_how_tls_begins_and_no_program(tmp_path: Path) -> None:
    heard: list[bytes] = []

    def take(server: socket.socket) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(5)
                    heard.append(connection.recv(1 << 16))

    job = tmp_path / "job.py"
    job.write_text("from tidegate.datastream import StreamExecutionEnvironment\n"
                   "env = StreamExecutionEnvironment.get_execution_environment()\n"
                   "env.from_collection([1]).print()\nenv.execute('secret')\n")  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as server:
        taker = threading.Thread(target=take, args=(server,), daemon=True)
        taker.start()
        port = server.getsockname()[1]
        done = run_cli("run", "-m", f"127.0.0.1:{port}", str(job), directory=tmp_path)
        server.shutdown(socket.SHUT_RDWR)
        taker.join(10)
    assert done.returncode != 0
    assert "speaks plain text" in done.stderr, done.stderr
    assert heard
    for words in heard:
        assert words[:2] == HELLO, words
        assert b"secret" not in words
