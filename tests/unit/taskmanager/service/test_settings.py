"""Where a TaskManager is reached, and what it asks of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.aio.listening import is_loopback
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.taskmanager.service.identity import control_socket, data_listen, find_host, make_identity
from tidegate.taskmanager.service.subtasks.spark_service import session_settings
from tidegate.taskmanager.spark.cluster.session_settings import session_properties


def configured(**texts: str) -> Configuration:
    return Configuration.from_strings({key.replace("__", "-").replace("_", "."): text for key, text in texts.items()})


@pytest.mark.parametrize(
    ("texts", "host"),
    [
        ({}, "localhost"),
        ({"taskmanager_host": "tm.example"}, "tm.example"),
        ({"taskmanager_bind__host": "10.0.0.7"}, "10.0.0.7"),
        ({"taskmanager_bind__host": "0.0.0.0", "taskmanager_host": "tm.example"}, "tm.example"),
        ({"taskmanager_bind__host": "0.0.0.0", "jobmanager_rpc_address": "127.0.0.1"}, "127.0.0.1"),
    ],
)
def test_host(texts: dict[str, str], host: str) -> None:
    assert find_host(configured(**texts)) == host


def test_names_are_drawn_unless_given() -> None:
    first, second = (make_identity(configured(), "h", 7) for _ in range(2))
    assert first.address == "h:7"
    assert first.task_manager_id.startswith("h:7-")
    assert first.task_manager_id != second.task_manager_id
    assert first.session != second.session
    assert make_identity(configured(taskmanager_resource__id="tm-1"), "h", 7).task_manager_id == "tm-1"


def test_data_goes_through_unix_sockets_only_when_everything_is_on_one_machine(tmp_path: Path) -> None:
    short = Path("/tmp/x")
    assert is_loopback("127.0.0.3")
    assert not is_loopback("10.0.0.7")
    assert data_listen("10.0.0.7", True, tmp_path) == "10.0.0.7"
    assert data_listen("localhost", False, tmp_path) == "*", "an executor is on any machine"
    assert data_listen("10.0.0.7", False, tmp_path, range(50_100, 50_201)) == "*:50100-50200"
    assert control_socket(short) == "unix:/tmp/x/control"
    assert control_socket(Path("/tmp", "x" * 100)) is None


def test_spark_keys_pass_through_and_what_the_runtime_needs_stays(tmp_path: Path) -> None:
    settings = session_settings(configured(spark_executor_memory="3g", spark_ui_enabled="true"), tmp_path, "localhost")
    found = session_properties(settings)
    assert found["spark.executor.memory"] == "3g"
    assert found["spark.ui.enabled"] == "true"
    assert found["spark.master"] == "local[1024]"
    assert found["spark.authenticate"] == found["spark.network.crypto.enabled"] == "true"
    assert found["spark.task.maxFailures"] == "1"
    assert found["spark.driver.host"] == "127.0.0.1"
    assert "spark.executorEnv.PYTHONPATH" not in found


def test_a_spark_key_that_breaks_the_runtime_is_refused(tmp_path: Path) -> None:
    settings = session_settings(configured(spark_task_maxFailures="4"), tmp_path, "localhost")
    with pytest.raises(ConfigurationError, match="spark.task.maxFailures must be 1"):
        session_properties(settings)


def test_with_tls_spark_encrypts_what_it_brings_to_other_machines(tmp_path: Path) -> None:
    tls = {"spark_master": "spark://head:7077", "security_ssl_internal_enabled": "true"}
    with pytest.raises(
        ConfigurationError, match=r"set spark.authenticate.secret to the secret of its master and workers"
    ):
        session_properties(session_settings(configured(**tls), tmp_path, "10.0.0.7"))
    plain = configured(**tls, spark_authenticate_secret="s", spark_network_crypto_enabled="false")
    with pytest.raises(ConfigurationError, match="spark.network.crypto.enabled must be true"):
        session_properties(session_settings(plain, tmp_path, "10.0.0.7"))
    found = session_properties(session_settings(configured(**tls, spark_authenticate_secret="s"), tmp_path, "10.0.0.7"))
    assert (found["spark.authenticate"], found["spark.network.crypto.enabled"]) == ("true", "true")
    without = session_settings(configured(**tls, taskmanager_data_ssl_enabled="false"), tmp_path, "10.0.0.7")
    assert "spark.authenticate" not in session_properties(without)
    on_yarn = session_settings(configured(**{**tls, "spark_master": "yarn"}), tmp_path, "10.0.0.7")
    assert session_properties(on_yarn)["spark.authenticate"] == "true"  # YARN makes the secret


def test_a_cluster_must_be_able_to_reach_the_task_manager(tmp_path: Path) -> None:
    remote = configured(spark_master="spark://head:7077")
    with pytest.raises(
        ConfigurationError, match=r"executors of spark://head:7077 cannot reach a TaskManager on localhost"
    ):
        session_settings(remote, tmp_path, "localhost")
    assert session_properties(session_settings(remote, tmp_path, "10.0.0.7"))["spark.driver.host"] == "10.0.0.7"
    near = configured(spark_master="spark://127.0.0.1:7077")
    assert session_settings(near, tmp_path, "localhost").master == "spark://127.0.0.1:7077"


@pytest.mark.parametrize(("place", "fits"), [("/tmp/x", "true"), ("/tmp/" + "x" * 100, "false")])
def test_spark_talks_to_its_python_workers_by_unix_sockets_where_their_paths_are_short_enough(
    place: str, fits: str
) -> None:
    found = session_properties(session_settings(configured(), Path(place), "localhost"))
    assert found["spark.python.unix.domain.socket.enabled"] == fits
