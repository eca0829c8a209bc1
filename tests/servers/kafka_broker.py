"""A real Kafka broker for tests: one JVM in KRaft mode on loopback, with a temporary log directory.

Its jars come from Maven once, into a cache below the user's cache directory; ``TIDEGATE_TEST_CACHE`` names another place.
A broker keeps its port and its log across ``kill9`` and ``start``, as a broker that crashed does.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.accounting import STARTS
from tests.e2e.waiting import wait_until
from tests.ports import free_port
from tests.servers.jars import fetched, java

_POM = Path(__file__).parents[2] / "examples" / "servers" / "kafka.xml"
_START_LIMIT_S = 120
USER, PASSWORD = "alice", "open sesame"
_NO_LOG = """Configuration:
  Appenders:
    Console: {name: STDOUT, PatternLayout: {pattern: "%d %p %m%n"}}
  Loggers:
    Root: {level: WARN, AppenderRef: [{ref: STDOUT}]}
"""


def jars() -> Path:
    """The directory that holds the broker's jars. Raises ``AssertionError`` when they cannot be had."""
    return fetched(_POM, "kafka")


class KafkaBroker:
    """A context manager. ``servers`` is what clients connect to; ``secured_servers`` is the listener with TLS and passwords, whose
    one user is ``USER``, and ``certificate`` what its clients have to trust."""

    def __init__(self, **settings: str) -> None:
        """``settings``: of the broker, with ``_`` for ``.``."""
        self._directory = Path(tempfile.mkdtemp(prefix="tg-kafka-"))
        self._port, self._controller_port = free_port(), free_port()
        self.servers = f"127.0.0.1:{self._port}"
        self.secured_servers = f"127.0.0.1:{free_port()}"
        self.certificate = self._directory / "broker.crt"
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
        STARTS["Kafka broker"] += 1
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

    def configure_topic(self, name: str, **config: str) -> None:
        """Settings of a topic, with ``_`` for ``.``."""
        from confluent_kafka import admin

        known: Any = admin  # its stubs do not export these
        setting = known.AlterConfigOpType.SET
        entries = [
            known.ConfigEntry(key.replace("_", "."), value, incremental_operation=setting)
            for key, value in config.items()
        ]
        wanted = known.ConfigResource("topic", name, incremental_configs=entries)
        client = self.admin()
        client.incremental_alter_configs([wanted])[wanted].result(30)

    def deny(self, topic: str, operation: str) -> None:
        """To everybody, who may do everything else with this topic."""
        client = self.admin()
        for what, permission in (("ALL", "ALLOW"), (operation.upper(), "DENY")):
            wanted = self._rule("AclBinding", topic, what, permission)
            client.create_acls([wanted])[wanted].result(30)

    def allow(self, topic: str, operation: str) -> None:
        """What was denied."""
        unwanted = self._rule("AclBindingFilter", topic, operation.upper(), "DENY")
        client = self.admin()
        client.delete_acls([unwanted])[unwanted].result(30)

    def _rule(self, kind: str, topic: str, operation: str, permission: str) -> Any:
        from confluent_kafka import admin

        known: Any = admin  # its stubs do not export these
        return getattr(known, kind)(
            known.ResourceType.TOPIC,
            topic,
            known.ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            known.AclOperation[operation],
            known.AclPermissionType[permission],
        )

    def add_scram_user(self) -> None:
        """``USER``, for the mechanism SCRAM-SHA-256."""
        from confluent_kafka import admin

        known: Any = admin  # its stubs do not export these
        kind = known.ScramCredentialInfo(known.ScramMechanism.SCRAM_SHA_256, 4096)
        wanted = known.UserScramCredentialUpsertion(USER, kind, PASSWORD.encode())
        client = self.admin()
        client.alter_user_scram_credentials([wanted])[USER].result(30)

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
        for_clients = f"PLAINTEXT://{self.servers},SECURED://{self.secured_servers}"
        told = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"{for_clients},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": for_clients,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL,CONTROLLER:PLAINTEXT",
            **self._secured(),
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "log.dirs": str(self._directory / "log"),
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            "log.retention.ms": "-1",  # tests send records of 1970, which the broker would remove when it looks
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

    def _secured(self) -> dict[str, str]:
        """Settings of that listener, with a certificate of its own."""
        store, login = self._directory / "broker.p12", "org.apache.kafka.common.security"
        secret = ["-storetype", "PKCS12", "-keystore", str(store), "-storepass", PASSWORD, "-alias", "broker"]
        made = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1", "-validity", "2"]
        for command in ([*made, *secret], ["-exportcert", "-rfc", "-file", str(self.certificate), *secret]):
            done = subprocess.run(
                [str(Path(java()).with_name("keytool")), *command],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert done.returncode == 0, f"the broker's certificate was not made:\n{done.stdout}{done.stderr}"
        user, of = f'username="{USER}" password="{PASSWORD}"', "listener.name.secured"
        return {
            f"{of}.ssl.keystore.type": "PKCS12",
            f"{of}.ssl.keystore.location": str(store),
            f"{of}.ssl.keystore.password": PASSWORD,
            f"{of}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            f"{of}.plain.sasl.jaas.config": f'{login}.plain.PlainLoginModule required {user} user_{USER}="{PASSWORD}";',
            f"{of}.scram-sha-256.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
        }

    def _java(self, main: str, *arguments: str) -> list[str]:
        log = f"-Dlog4j2.configurationFile={self._directory / 'log4j2.yaml'}"
        return [java(), "-Xmx512m", "-XX:-UsePerfData", log, "-cp", f"{jars()}/*", main, *arguments]

    def _log(self) -> str:
        log = self._directory / "broker.log"
        return log.read_text(errors="replace") if log.exists() else ""
