"""Ids of topics, which brokers assign when a topic is created. A topic that was deleted and created again has another.

Positions are of one topic. Under another of the same name they would skip its beginning, or lie behind its end.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from tidegate.connectors.kafka.client import CONTACT_TIMEOUT_S, admin, library
from tidegate.model.errors import CorruptData

UNKNOWN = ""
"""The id of a topic from a broker that is older than 2.8, or does not report it."""
_NONE = UUID(int=0)


def topic_ids(servers: str, properties: Mapping[str, str], topics: Collection[str]) -> dict[str, str]:
    """Returns the ids of topics in Kafka's text form; without topics that do not exist, or whose id is not reported."""
    kafka = library()
    found = {}
    client = admin(servers, properties)
    try:
        futures: Mapping[str, Any] = client.describe_topics(
            kafka.TopicCollection(list(topics)), request_timeout=CONTACT_TIMEOUT_S
        )
    except kafka.KafkaException:
        return {}
    for topic, future in futures.items():
        try:
            described = future.result(CONTACT_TIMEOUT_S).topic_id
        except (kafka.KafkaException, TimeoutError):
            continue
        if described is not None:
            found[topic] = shown(
                UUID(
                    int=_bits(described.get_most_significant_bits()) << 64
                    | _bits(described.get_least_significant_bits())
                )
            )
    return {topic: topic_id for topic, topic_id in found.items() if topic_id != UNKNOWN}


def _bits(number: int) -> int:
    """Returns 64 bits as a number without a sign."""
    return number & (1 << 64) - 1


def shown(topic_id: UUID | None) -> str:
    """Formats a topic id as Kafka does: URL-safe base64. librdkafka's own text differs in two letters."""
    if topic_id is None or topic_id == _NONE:
        return UNKNOWN
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def topic_was_remade(topic: str, partition: int, position: int, known: str, found: str) -> CorruptData:
    """Builds the error for a position of a topic that was deleted and created again."""
    return CorruptData(
        f"topic {topic!r} was deleted and made again: offset {position} of partition {partition}, where the source goes on, is of the topic with "
        f"the id {known}, and the one of that name has the id {found} now. To read the new topic from its beginning, give the source another "
        "uid and restore with --allow-non-restored-state, or start the job anew; to go on with the old one, bring it back under another name "
        "and another source"
    )
