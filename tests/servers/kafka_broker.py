"""A real Kafka broker for tests: one JVM in KRaft mode on loopback, with a temporary log directory.

Its jars come from Maven once, into a cache below the user's cache directory; ``TIDEGATE_TEST_CACHE`` names another place.
A broker keeps its port and its log across ``kill9`` and ``start``, as a broker that crashed does.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.e2e.waiting import wait_until

_POM = Path(__file__).parent / "kafka" / "pom.xml"
_START_LIMIT_S = 120
_DOWNLOAD_LIMIT_S = 900
_NO_LOG = """Configuration:
  Appenders:
    Console: {name: STDOUT, PatternLayout: {pattern: "%d %p %m%n"}}
  Loggers:
    Root: {level: WARN, AppenderRef: [{ref: STDOUT}]}
"""


def jars() -> Path:
    """The directory that holds the broker's jars. Raises ``AssertionError`` when they cannot be had."""
    cache = Path(os.environ.get("TIDEGATE_TEST_CACHE", Path.home() / ".cache" / "tidegate-tests"))
    target = cache / f"kafka-{hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]}"
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=cache))
    command = ["mvn", "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_LIMIT_S, check=False)
    except FileNotFoundError:
        raise AssertionError("the tests of Kafka need Maven (mvn) to fetch the broker's jars: install it") from None
    assert done.returncode == 0, f"the broker's jars could not be fetched:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    try:
        fresh.rename(target)
    except OSError:  # another test run was faster
        shutil.rmtree(fresh)
    return target


class KafkaBroker:
    """A context manager. ``servers`` is what clients connect to."""

    def __init__(self, **settings: str) -> None:
        """``settings``: of the broker, with ``_`` for ``.``."""
        self._directory = Path(tempfile.mkdtemp(prefix="tg-kafka-"))
        self._port, self._controller_port = _free_port(), _free_port()
        self.servers = f"127.0.0.1:{self._port}"
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> KafkaBroker:
        self._configure()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self._log()[-3000:])
        self.kill9()
        shutil.rmtree(self._directory, ignore_errors=True)

    def start(self) -> None:
        """Start it (again), and wait until it answers."""
        environment = self._java("kafka.Kafka", str(self._directory / "server.properties"))
        with (self._directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        wait_until(self._answers, _START_LIMIT_S, "the Kafka broker answers")

    def kill9(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        from confluent_kafka.cimpl import NewTopic

        wanted = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
        client = self.admin()  # its future lives as long as the client
        client.create_topics([wanted])[name].result(30)

    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the Kafka broker ended:\n{self._log()[-3000:]}"
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1):
                pass
            return bool(self.admin().list_topics(timeout=2).brokers)
        except Exception as error:
            if isinstance(error, OSError) or type(error).__name__ == "KafkaException":
                return False
            raise

    def _configure(self) -> None:
        one = dict.fromkeys(
            [
                "offsets.topic.replication.factor",
                "transaction.state.log.replication.factor",
                "transaction.state.log.min.isr",
                "share.coordinator.state.topic.replication.factor",
                "share.coordinator.state.topic.min.isr",
            ],
            "1",
        )
        told = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "log.dirs": str(self._directory / "log"),
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            **one,
            **self._settings,
        }
        properties = self._directory / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
        (self._directory / "log4j2.yaml").write_text(_NO_LOG)
        tool = "kafka.tools.StorageTool"
        cluster_id = "dGlkZWdhdGUtdGVzdHMtMQ"
        command = self._java(tool, "format", "-t", cluster_id, "-c", str(properties))
        done = subprocess.run(command, capture_output=True, text=True, timeout=_START_LIMIT_S, check=False)
        assert done.returncode == 0, f"the broker's storage was not formatted:\n{done.stdout}{done.stderr}"

    def _java(self, main: str, *arguments: str) -> list[str]:
        java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java"
        log = f"-Dlog4j2.configurationFile={self._directory / 'log4j2.yaml'}"
        return [java, "-Xmx512m", "-XX:-UsePerfData", log, "-cp", f"{jars()}/*", main, *arguments]

    def _log(self) -> str:
        log = self._directory / "broker.log"
        return log.read_text(errors="replace") if log.exists() else ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
