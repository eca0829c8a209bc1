"""Limits of topics, read from the broker before a checkpoint: a record that a topic would refuse fails the job before a checkpoint contains it."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.kafka.client import METADATA_TIMEOUT_S, admin, library
from tidegate.connectors.kafka.records import by_topic, check_sizes
from tidegate.connectors.kafka.sending import message_limit
from tidegate.model.errors import UserError

_BATCH_BYTES = 61
"""The header of a batch of records (Kafka: ``DefaultRecordBatch.RECORD_BATCH_OVERHEAD``)."""
_MOST_VARINTS = 24
"""The most bytes of a record besides its key and value."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Rule:
    """The limits of a topic. ``limit_bytes``: of a batch with one record; ``None``: unknown, or it is compressed first. ``needs_key``: the topic is
    compacted."""

    limit_bytes: int | None = None
    needs_key: bool = False


class TopicRules:
    """The limits of topics, each requested once."""

    def __init__(self, servers: str, properties: Mapping[str, str]) -> None:
        self._servers = servers
        self._properties = dict(properties)
        self._client_limit = message_limit(properties)
        chosen = {properties.get(name, "none") for name in ("compression.type", "compression.codec")}
        self._is_compressed = chosen != {"none"}
        self._rules: dict[str, _Rule] = {}
        self._admin: Any = None

    def check(self, records: pa.RecordBatch, first: int = 1) -> None:
        """Raises ``UserError`` for a record that is too large, has no key for a compacted topic, or is for a missing topic. ``first``: the number of
        the first record in its epoch, for the message."""
        check_sizes(records, self._client_limit)
        for topic in records.column("topic").dictionary.to_pylist():
            if topic not in self._rules:
                self._rules[topic] = self._looked_up(topic)
        known = self._rules.values()
        limits = [rule.limit_bytes for rule in known if rule.limit_bytes is not None]
        is_small = not limits or records.nbytes + _BATCH_BYTES + _MOST_VARINTS <= min(limits)
        has_keys = not records.column("key").null_count or not any(rule.needs_key for rule in known)
        if is_small and has_keys:
            return
        numbered = records.append_column("number", pa.array(range(first, first + records.num_rows), pa.int64()))
        for topic, found in by_topic(numbered):
            self._check_topic(topic, found, self._rules[topic])

    def _check_topic(self, topic: str, found: pa.RecordBatch, rule: _Rule) -> None:
        keys, numbers = found.column("key"), found.column("number")
        if rule.needs_key and keys.null_count:
            number = numbers[pc.index(keys.is_null(), True).as_py()].as_py()
            raise UserError(
                f"record {number} since the last checkpoint has no key, which topic {topic!r} of Kafka at {self._servers} needs, as it is compacted "
                "(cleanup.policy): give the sink a key serialization schema"
            )
        if rule.limit_bytes is None:
            return
        sizes = [
            pc.fill_null(pc.binary_length(column), -1).cast(pa.int64()) for column in (keys, found.column("value"))
        ]
        near = pc.greater(pc.add(*sizes), rule.limit_bytes - _BATCH_BYTES - _MOST_VARINTS)
        for place in pc.indices_nonzero(near).to_pylist():
            size = batch_bytes(*(column[place].as_py() for column in sizes))
            if size > rule.limit_bytes:
                raise UserError(
                    f"record {numbers[place].as_py()} since the last checkpoint takes {size} bytes, and topic {topic!r} of Kafka at {self._servers} "
                    f"takes {rule.limit_bytes}: make it smaller, or raise max.message.bytes of the topic"
                )

    def _looked_up(self, topic: str) -> _Rule:
        kafka = library()
        try:
            settings = self._settings("topic", topic)
        except (kafka.KafkaException, TimeoutError) as error:
            reason = error.args[0] if error.args else error
            if isinstance(reason, kafka.KafkaError) and reason.code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                if not self._makes_topics():
                    raise UserError(
                        f"Kafka at {self._servers} has no topic {topic!r}, for which there is a record: create it, or correct its name"
                    ) from error
            else:
                _LOG.info("Kafka at %s did not report the settings of topic %r: %s", self._servers, topic, error)
            return _Rule()
        limit = None if self._is_compressed else settings.get("max.message.bytes")
        return _Rule(None if limit is None else int(limit), "compact" in (settings.get("cleanup.policy") or ""))

    def _makes_topics(self) -> bool:
        """Returns whether the broker creates topics automatically."""
        kafka = library()
        try:
            brokers = list(self._client().list_topics(timeout=METADATA_TIMEOUT_S).brokers)
            return self._settings("broker", str(brokers[0])).get("auto.create.topics.enable") != "false"
        except (kafka.KafkaException, TimeoutError):
            return True

    def _settings(self, kind: str, name: str) -> dict[str, str | None]:
        resource: Any = importlib.import_module("confluent_kafka.admin").ConfigResource  # which its types do not export
        futures = self._client().describe_configs([resource(kind, name)])
        found = next(iter(futures.values())).result(METADATA_TIMEOUT_S)
        return {setting: entry.value for setting, entry in found.items()}

    def _client(self) -> Any:
        if self._admin is None:
            self._admin = admin(self._servers, self._properties)
        return self._admin


def batch_bytes(key: int, value: int) -> int:
    """Returns the size of an uncompressed batch of one record without headers, by the lengths of key and value; -1 is null."""
    body = 4 + sum(_varint(length) + max(length, 0) for length in (key, value))
    return _BATCH_BYTES + _varint(body) + body


def _varint(number: int) -> int:
    """Returns how many bytes a number takes as zigzag varint."""
    zigzag = number << 1 if number >= 0 else -2 * number - 1
    return max(1, -(-zigzag.bit_length() // 7))
