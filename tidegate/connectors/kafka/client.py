"""Creates Kafka clients of ``confluent-kafka``, and converts their errors to tidegate's.

The library is imported when the first client is made, so that a program without Kafka needs no ``confluent-kafka``.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from tidegate.model.errors import ConfigurationError, ExternalError, InvalidJob, Unreachable
from tidegate.model.masking import SECRETS

T = TypeVar("T")

METADATA_TIMEOUT_S = 15.0
"""The timeout of a request for metadata, in seconds. Chosen, not measured: several attempts to connect, each with its back-off."""
ASK_AGAIN_S = 0.1
"""The delay before a request is repeated, in seconds: Kafka's default of ``retry.backoff.ms``."""
CONTACT_TIMEOUT_S = 5.0
"""The timeout of the first request at submission, in seconds."""

_LOG = logging.getLogger(__name__)
_CLIENTS_OWN_LOG = logging.getLogger(f"{__name__}.librdkafka")
_CLIENTS_OWN_LOG.setLevel(logging.CRITICAL)
"""librdkafka's own log is off: it reports every failed connection many times a second; ``_on_error`` logs it once."""

_turned_away: dict[str, str] = {}
"""Why clients failed to authenticate, by servers."""
_plain: set[str] = set()
"""Servers to which the connections of this process are not encrypted."""
PROBE_S = 2.0
"""The timeout of a probing TLS handshake, in seconds. Chosen, not measured: a live broker answers a handshake at once."""

SERVERS_KEY = "bootstrap.servers"
TRANSACTION_TIMEOUT_KEY = "transaction.timeout.ms"
MAX_TRANSACTION_TIMEOUT_KEY = "transaction.max.timeout.ms"
TRANSACTION_TIMEOUT_MS = 60_000
"""The default timeout of transactions in ms: Kafka's default of ``transaction.timeout.ms``."""
_OVERRIDDEN = ("key.deserializer", "value.deserializer", "key.serializer", "value.serializer", "auto.offset.reset")
"""Properties that the connector always sets, overriding those of the program (Flink: ``KafkaSourceBuilder.parseAndSetRequiredProperties``)."""
_OF_CONSUMERS = ("group.id", "enable.auto.commit", "auto.commit.interval.ms", "isolation.level", "fetch.min.bytes")


def library() -> Any:
    """Returns the module ``confluent_kafka``. Raises ``InvalidJob`` when it is not installed."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise InvalidJob("Kafka needs the package confluent-kafka: pip install 'tidegate[kafka]'") from error
    return confluent_kafka


def source_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the program's properties without those that the source sets itself. Raises ``InvalidJob`` for properties that contradict its function."""
    if str(properties.get("enable.auto.commit", "false")).lower() == "true":
        raise InvalidJob(
            "enable.auto.commit would commit offsets of records that no checkpoint holds yet: leave it out, they are committed "
            "when a checkpoint is confirmed (commit.offsets.on.checkpoint)"
        )
    return _without(properties, (*_OVERRIDDEN, "enable.auto.commit"), "source")


def sink_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties of a producer, without those for consumers only."""
    if "transactional.id" in properties:
        raise InvalidJob("the sink makes transactional.id itself: use set_transactional_id_prefix()")
    return _without(properties, (*_OVERRIDDEN, *_OF_CONSUMERS), "sink")


def servers_of(properties: Mapping[str, str], what: str) -> str:
    """Returns the bootstrap servers of the properties. Raises ``InvalidJob`` without any."""
    if not (found := properties.get(SERVERS_KEY, "")):
        raise InvalidJob(f"{what} needs {SERVERS_KEY}: set_bootstrap_servers(), or the property of that name")
    return found


def _without(properties: Mapping[str, str], names: tuple[str, ...], what: str) -> dict[str, str]:
    for name in sorted(properties.keys() & set(names)):
        _LOG.warning("the property %s=%s has no effect on a Kafka %s", name, properties[name], what)
    return {name: str(value) for name, value in properties.items() if name not in (*names, SERVERS_KEY)}


def consumer(servers: str, properties: Mapping[str, str], **settings: Any) -> Any:
    """Creates a consumer of librdkafka."""
    kafka = library()
    return _made(kafka.Consumer, servers, {**properties, **_dotted(settings)})


def producer(servers: str, properties: Mapping[str, str], **settings: Any) -> Any:
    """Creates a producer of librdkafka."""
    kafka = library()
    return _made(kafka.Producer, servers, {**properties, **_dotted(settings)})


def admin(servers: str, properties: Mapping[str, str]) -> Any:
    """Creates an admin client of librdkafka, without the properties that only consumers or producers know."""
    library()
    from confluent_kafka.admin import AdminClient

    # what is only for producers or consumers would be warned about
    own = {k: v for k, v in properties.items() if k.startswith(("security.", "sasl.", "ssl.", "client.", "socket."))}
    return _made(AdminClient, servers, own)


def _dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Converts keyword arguments to properties with dots in their names; callbacks keep their names."""
    return {name if callable(value) else name.replace("_", "."): value for name, value in settings.items()}


def note_protocol(servers: str, properties: Mapping[str, Any]) -> None:
    """Records whether connections to these servers are encrypted, so that ``typed_error`` can name that as the cause of a failure."""
    if "SSL" in str(properties.get("security.protocol", "")).upper().removeprefix("SASL_"):
        _plain.discard(servers)
    else:
        _plain.add(servers)


def speaks_tls(servers: str) -> bool:
    """Tells whether one of these servers answers a TLS handshake, be it with a refusal. Takes up to two seconds for each that does not answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), PROBE_S) as plain, context.wrap_socket(plain):
                return True
        except ssl.SSLError as error:
            if "ALERT" in (error.reason or ""):
                return True
        except (OSError, ValueError):
            continue
    return False


def _made(kind: Any, servers: str, settings: Mapping[str, Any]) -> Any:
    kafka = library()
    on_error = partial(_on_error, servers)
    defaults = {"reconnect.backoff.ms": "200", "error_cb": on_error, "logger": _CLIENTS_OWN_LOG}
    wanted = {"bootstrap.servers": servers, **defaults, **settings}
    note_protocol(servers, wanted)
    SECRETS.learn({name: value for name, value in wanted.items() if isinstance(value, str)})
    try:
        return kind(wanted)
    except kafka.KafkaException as error:
        raise ConfigurationError(
            f"the client of Kafka at {servers} cannot be made with these properties: {error.args[0].str()}"
        ) from error
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the client of Kafka at {servers} cannot be made with these properties: {error}"
        ) from error


def _on_error(servers: str, error: Any) -> None:
    """Logs an error that librdkafka retries by itself. A lasting failure is raised where the request was made; but a
    client whose password was refused learns there only that no broker answered."""
    _LOG.info("Kafka: %s", error.str())
    if error.code() == library().KafkaError._AUTHENTICATION:
        _turned_away[servers] = error.str()


@contextlib.contextmanager
def kafka_errors(doing: str, servers: str, client: Any = None) -> Iterator[None]:
    """Converts errors of a Kafka client, raised in the ``with`` block, to one typed error that names the action and the servers.

    ``client``: the client that is polled for details of the error, unless it is a consumer with assigned partitions: polling that could lose a record.
    """
    kafka = library()
    try:
        yield
    except kafka.KafkaException as error:
        if client is not None and not _reads(client):
            client.poll(0)
        raise typed_error(error.args[0], doing, servers) from error


def _reads(client: Any) -> bool:
    return hasattr(client, "assignment") and bool(client.assignment())


def answer(
    ask: Callable[[], T],
    doing: str,
    servers: str,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> T:
    """Requests an answer of a broker. A broker that has just started or hands over its partitions first answers that it is not responsible, so the
    request is repeated until its timeout (as in Kafka's own Java client; librdkafka returns these errors to the caller)."""
    kafka = library()
    codes = kafka.KafkaError
    soon = (
        codes.NOT_COORDINATOR,
        codes.COORDINATOR_NOT_AVAILABLE,
        codes.COORDINATOR_LOAD_IN_PROGRESS,
        codes.LEADER_NOT_AVAILABLE,
        codes.NOT_LEADER_FOR_PARTITION,
        codes._WAIT_COORD,
    )
    deadline = clock() + METADATA_TIMEOUT_S
    with kafka_errors(doing, servers):
        while True:
            try:
                return ask()
            except kafka.KafkaException as error:
                if error.args[0].code() not in soon or clock() >= deadline:
                    raise
            wait(ASK_AGAIN_S)


def typed_error(error: Any, doing: str, servers: str) -> ExternalError | InvalidJob:
    """Converts a ``KafkaError`` to an error that names the action and the servers."""
    codes = library().KafkaError
    text = f"cannot {doing} (Kafka at {servers}): {error.str()}"
    is_away = error.code() in (codes._TRANSPORT, codes._ALL_BROKERS_DOWN, codes._TIMED_OUT)
    if is_away and (why := _turned_away.pop(servers, "")):
        return ExternalError(
            f"cannot {doing} (Kafka at {servers}): authentication failed: {why}; check user and password"
        )
    if error.code() in (codes._TRANSPORT, codes._ALL_BROKERS_DOWN, codes._TIMED_OUT, codes._RESOLVE):
        if servers in _plain and speaks_tls(servers):
            return Unreachable(f"{text}; the broker speaks TLS: set security.protocol to SSL, or to SASL_SSL")
        return Unreachable(f"{text}; is the broker up, and the address right?")
    if error.code() in (
        codes.TOPIC_AUTHORIZATION_FAILED,
        codes.GROUP_AUTHORIZATION_FAILED,
        codes.CLUSTER_AUTHORIZATION_FAILED,
        codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        codes.SASL_AUTHENTICATION_FAILED,
    ):
        return ExternalError(f"{text}; the user of the client lacks this permission on the broker")
    if error.code() == codes.INVALID_TRANSACTION_TIMEOUT:
        return InvalidJob(
            f"{text}; {TRANSACTION_TIMEOUT_KEY} of the sink is more than the broker's {MAX_TRANSACTION_TIMEOUT_KEY} allows: lower the one "
            "(set_property), or raise the other"
        )
    if error.code() in (codes.MSG_SIZE_TOO_LARGE, codes.RECORD_LIST_TOO_LARGE):
        return ExternalError(f"{text}; raise max.message.bytes of the topic, or message.max.bytes of the broker")
    if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes._UNKNOWN_PARTITION):
        return ExternalError(f"{text}; create the topic, or correct its name")
    return ExternalError(text)


def contact(client: Any, servers: str) -> None:
    """Makes the first request of a client. Raises ``Unreachable`` soon when there is no broker at that address."""
    with kafka_errors("connect", servers, client):
        client.list_topics(timeout=CONTACT_TIMEOUT_S)


def partitions_of(client: Any, topic: str, servers: str) -> list[int]:
    """Returns the partitions of a topic, in order. Raises ``InvalidJob`` when there is no such topic."""
    with kafka_errors(f"read the metadata of topic {topic!r}", servers, client):
        topic_metadata = client.list_topics(topic, timeout=METADATA_TIMEOUT_S).topics[topic]
    if topic_metadata.error is not None:
        codes = library().KafkaError
        if topic_metadata.error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC):
            raise InvalidJob(f"Kafka at {servers} has no topic {topic!r}: create it, or correct its name")
        raise typed_error(topic_metadata.error, f"read the metadata of topic {topic!r}", servers)
    return sorted(topic_metadata.partitions)


def topics_matching(client: Any, pattern: str, servers: str) -> list[str]:
    """Returns the topics whose whole name matches the regular expression, without Kafka's internal ones."""
    import re

    with kafka_errors("list the topics", servers):
        topic_metadata = client.list_topics(timeout=METADATA_TIMEOUT_S).topics
    matches = re.compile(pattern).fullmatch
    return sorted(name for name in topic_metadata if matches(name) and not name.startswith("__"))


def check_transaction_timeout(client: Any, servers: str, properties: Mapping[str, str]) -> None:
    """Checks that the broker allows transactions as long as the sink's. Raises ``InvalidJob``. A broker that does not show its settings is checked when
    the job starts. ``client``: of ``admin``."""
    kafka = library()
    resource: Any = importlib.import_module("confluent_kafka.admin").ConfigResource  # which its types do not export
    given = str(properties.get(TRANSACTION_TIMEOUT_KEY, TRANSACTION_TIMEOUT_MS))
    try:
        brokers = list(client.list_topics(timeout=METADATA_TIMEOUT_S).brokers)
        futures = client.describe_configs([resource(resource.Type.BROKER, str(brokers[0]))])
        settings = next(iter(futures.values())).result(METADATA_TIMEOUT_S)
    except (kafka.KafkaException, TimeoutError) as error:
        _LOG.info("Kafka at %s did not report its %s: %s", servers, MAX_TRANSACTION_TIMEOUT_KEY, error)
        return
    found = settings.get(MAX_TRANSACTION_TIMEOUT_KEY)
    if found is None or not given.isdecimal():  # what is no number is the client's to refuse
        return
    if int(given) > int(found.value):
        raise InvalidJob(
            f"{TRANSACTION_TIMEOUT_KEY} of the sink is {given} ms, and the broker at {servers} allows {found.value} ms "
            f"({MAX_TRANSACTION_TIMEOUT_KEY}): lower the one with set_property({TRANSACTION_TIMEOUT_KEY!r}, {found.value!r}), or raise the "
            "other at the broker"
        )
