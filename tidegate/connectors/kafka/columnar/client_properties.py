"""The client properties (librdkafka's names) that the path by column supports.

Each is one of: a setting of the connections (``KafkaConnectionManager``'s), one that the fetches or transactions look up
themselves, or one of librdkafka's own queues and timers, which this path does not have. A property that is none of these, or
has a value that is not understood here, decides for librdkafka: ``knows`` is ``False``.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from tidegate.model.errors import ConfigurationError
from tidegate.model.masking import SECRETS

FRAME_BYTES = 256 << 20
"""The largest answer that is accepted, in bytes: more than any fetch asks for, less than what a faulty peer could make us allocate."""

_LOG = logging.getLogger(__name__)
_logged_reasons: set[str] = set()

_SECURITY = {name.lower(): name for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")}
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_CONNECTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "security.protocol": ("security_protocol", lambda value: _SECURITY[value.lower()]),
    "sasl.mechanism": ("sasl_mechanism", lambda value: _one_of(_MECHANISMS, value)),
    "sasl.mechanisms": ("sasl_mechanism", lambda value: _one_of(_MECHANISMS, value)),
    "sasl.username": ("sasl_plain_username", str),
    "sasl.password": ("sasl_plain_password", str),
    "client.id": ("client_id", str),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", int),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", int),
    "socket.connection.setup.timeout.ms": ("socket_connection_setup_timeout_ms", int),
    "socket.timeout.ms": ("request_timeout_ms", int),
}
_SSL: dict[str, Callable[[str], Any]] = {
    "ssl.ca.location": lambda value: _none_of(("probe",), value),
    "ssl.certificate.location": str,
    "ssl.key.location": str,
    "ssl.key.password": str,
    "ssl.endpoint.identification.algorithm": lambda value: _one_of(("https", "none"), value),
}
_OWN: dict[str, Callable[[str], Any]] = {
    "fetch.min.bytes": int,
    "fetch.wait.max.ms": int,
    "fetch.max.bytes": int,
    "fetch.message.max.bytes": int,
    "max.partition.fetch.bytes": int,
    "batch.size": int,
    "compression.type": lambda value: _one_of(("none", "gzip", "snappy", "lz4", "zstd"), value),
    "compression.codec": lambda value: _one_of(("none", "gzip", "snappy", "lz4", "zstd"), value),
    "message.max.bytes": int,
    "request.timeout.ms": int,
    "transaction.timeout.ms": int,
    "partitioner": lambda value: _one_of(("murmur2_random",), value),
    "acks": lambda value: _one_of(("all", "-1"), value),
    "request.required.acks": lambda value: _one_of(("all", "-1"), value),
}
_WITHOUT_EFFECT = (
    *("linger.ms", "queue.buffering.max.ms", "queue.buffering.max.messages", "queue.buffering.max.kbytes"),
    *("queued.min.messages", "queued.max.messages.kbytes", "fetch.queue.backoff.ms", "fetch.error.backoff.ms"),
    *("message.timeout.ms", "delivery.timeout.ms", "batch.num.messages", "log_level", "check.crcs"),
    *("metadata.max.age.ms", "topic.metadata.refresh.interval.ms", "retry.backoff.ms", "socket.keepalive.enable"),
)


def knows(properties: Mapping[str, str]) -> bool:
    """Returns whether all properties are supported by column."""
    return _unknown(properties) is None


def goes_by_column(properties: Mapping[str, str]) -> bool:
    """Returns whether the path by column is used; if not, logs why, once for each reason."""
    why = why_not_by_column(properties)
    if why is not None and why not in _logged_reasons:
        _logged_reasons.add(why)
        _LOG.info("records of Kafka are handled one by one, which is slower: %s", why)
    return why is None


def why_not_by_column(properties: Mapping[str, str]) -> str | None:
    """Returns the reason why the path by column cannot be used; ``None``: it can."""
    unknown = _unknown(properties)
    if unknown is not None:
        return f"the property {unknown!r} is known to librdkafka only"
    return None if _is_installed() else "kafka-python is not installed"


def connection_settings(properties: Mapping[str, str], servers: str) -> dict[str, Any]:
    """Converts properties to settings of ``KafkaConnectionManager``. Raises ``ConfigurationError`` for certificates that cannot be read."""
    SECRETS.learn(properties)
    found = {ours: read(str(properties[name])) for name, (ours, read) in _CONNECTIONS.items() if name in properties}
    settings = {
        "bootstrap_servers": servers.split(","),
        "client_id": "tidegate",
        "receive_message_max_bytes": FRAME_BYTES,
        "reconnect_backoff_max_ms": 1_000,
        # requests in flight are counted by their senders: beyond its own limit the library refuses instead of waiting
        "max_in_flight_requests_per_connection": 1_000,
        **found,
    }
    if settings.get("security_protocol") in ("SSL", "SASL_SSL"):
        settings["ssl_context"] = _ssl_context(properties, servers)
    return settings


def number(properties: Mapping[str, str], default: int, *names: str) -> int:
    """Returns the first of the named properties that is given, as a number."""
    return next((int(properties[name]) for name in names if name in properties), default)


def _unknown(properties: Mapping[str, str]) -> str | None:
    readers = {**{name: read for name, (_, read) in _CONNECTIONS.items()}, **_SSL, **_OWN}
    for name, value in properties.items():
        if name in _WITHOUT_EFFECT:
            continue
        try:
            readers[name](str(value))
        except (KeyError, ValueError):
            return name
    if "sasl" in str(properties.get("security.protocol", "")).lower() and not _names_mechanism(properties):
        return "security.protocol"  # librdkafka's default mechanism is GSSAPI
    return None


def _names_mechanism(properties: Mapping[str, str]) -> bool:
    return "sasl.mechanism" in properties or "sasl.mechanisms" in properties


def _one_of(allowed: tuple[str, ...], value: str) -> str:
    if value not in allowed:
        raise ValueError(value)
    return value


def _none_of(refused: tuple[str, ...], value: str) -> str:
    if value in refused:
        raise ValueError(value)
    return value


def _is_installed() -> bool:
    try:
        import google_crc32c  # noqa: F401
        import kafka.net.manager  # noqa: F401
    except ImportError:
        return False
    return True


def _ssl_context(properties: Mapping[str, str], servers: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    given = [
        f"{key}={properties[key]}"
        for key in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
        if key in properties
    ]
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") == "https"
    certificate = properties.get("ssl.certificate.location")
    try:
        if "ssl.ca.location" in properties:
            context.load_verify_locations(properties["ssl.ca.location"])
        else:
            context.load_default_certs()
        if certificate is not None:
            key = properties.get("ssl.key.location")
            context.load_cert_chain(certificate, key, properties.get("ssl.key.password"))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"Kafka client for {servers}: its certificates cannot be read: {error}; given are {', '.join(given) or 'none, so those of the system'}"
        ) from error
    return context
