"""A cluster with everything of TLS switched on, by keystores that ``keytool`` made as Flink's page on SSL says."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import grpc
import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.pool import made_ready
from tests.e2e.test_kills import kill_subtask, kill_task_manager, run_with_kills
from tidegate.aio.https import https_client
from tidegate.model.configuration import Configuration
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb import jobmanager_pb2_grpc as rpc

PASSWORD = "of-the-store"
LIMIT_S = 30


def keytool(*arguments: str) -> None:
    subprocess.run(["keytool", *arguments, "-storepass", PASSWORD], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """One certificate for all processes inside, and one for REST with a certificate authority, as on the page; data goes by TCP."""
    stores = tmp_path_factory.mktemp("stores")
    internal, rest, trusted = stores / "internal.keystore", stores / "rest.keystore", stores / "rest.truststore"
    kind = ("-keyalg", "RSA", "-keysize", "2048", "-storetype", "PKCS12")
    keytool("-genkeypair", "-alias", "flink.internal", "-keystore", f"{internal}", "-dname", "CN=flink.internal", *kind)
    keytool("-genkeypair", "-alias", "flink.rest", "-keystore", f"{rest}", "-dname", "CN=localhost", *kind)
    certificate = stores / "rest.pem"
    keytool("-exportcert", "-rfc", "-alias", "flink.rest", "-keystore", str(rest), "-file", str(certificate))
    keytool("-importcert", "-noprompt", "-alias", "rest", "-file", str(certificate), "-keystore", str(trusted))
    return {
        "security.ssl.internal.enabled": "true",
        "security.ssl.internal.keystore": str(internal),
        "security.ssl.internal.truststore": str(internal),
        "security.ssl.internal.keystore-password": PASSWORD,
        "security.ssl.internal.key-password": PASSWORD,
        "security.ssl.internal.truststore-password": PASSWORD,
        "security.ssl.rest.enabled": "true",
        "security.ssl.rest.keystore": str(rest),
        "security.ssl.rest.truststore": str(trusted),
        "security.ssl.rest.keystore-password": PASSWORD,
        "security.ssl.rest.key-password": PASSWORD,
        "security.ssl.rest.truststore-password": PASSWORD,
        "taskmanager.bind-host": "0.0.0.0",
        "taskmanager.host": socket.gethostname(),
    }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, settings: Mapping[str, str]) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), settings) as cluster:
        made_ready(cluster, 2)
        yield cluster


def test_a_job_is_exact_although_processes_are_killed(secured: Cluster, tmp_path: Path) -> None:
    run = CountsRun(tmp_path, seconds=12, rows=96_000, splits=4)
    made_ready(secured, 3)
    run_with_kills(secured, run, [kill_subtask, kill_task_manager], "secured")


def test_commands_find_the_cluster_by_their_configuration_and_say_what_is_missing(secured: Cluster) -> None:
    assert secured.cli("list", "--jobmanager", secured.address).returncode == 0
    plain = secured.cli("list", "--jobmanager", secured.address, TIDEGATE_SECURITY_SSL_INTERNAL_ENABLED="false")
    assert plain.returncode != 0
    assert "has TLS of its own (security.ssl.internal.enabled)" in plain.stderr


def test_whoever_has_no_certificate_gets_no_answer(secured: Cluster) -> None:
    """Neither from the JobManager nor from a TaskManager."""
    addresses = [secured.address, *(known.address for known in secured.cluster_status().task_managers)]
    for address in addresses:
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as told:
            rpc.JobManagerClientServiceStub(channel).GetCluster(pb.GetClusterRequest(), timeout=LIMIT_S)
        assert isinstance(told.value, grpc.Call)
        assert told.value.code() is grpc.StatusCode.UNAVAILABLE


def test_the_page_and_rest_are_answered_by_https_alone(secured: Cluster, settings: Mapping[str, str]) -> None:
    tls = https_client(Configuration.from_strings(settings))
    url = f"localhost:{secured.rest_port}"
    with urllib.request.urlopen(f"https://{url}/overview", timeout=LIMIT_S, context=tls) as answer:
        assert json.load(answer)["taskmanagers"] >= 2
    with urllib.request.urlopen(f"https://{url}/", timeout=LIMIT_S, context=tls) as page:
        assert b"<html" in page.read()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://{url}/overview", timeout=LIMIT_S)
