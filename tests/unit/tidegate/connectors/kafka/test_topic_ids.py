"""Ids of topics have one text, from whichever client they come."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import KafkaError, KafkaException, Uuid

from tidegate.connectors.kafka import topic_ids


class Told:
    def __init__(self, topic_id: Any) -> None:
        self.topic_id = topic_id

    def result(self, limit_s: float) -> Told:
        if isinstance(self.topic_id, Exception):
            raise self.topic_id
        return self


class Admin:
    def __init__(self, found: dict[str, Any]) -> None:
        self._found = found

    def describe_topics(self, wanted: Any, request_timeout: float) -> dict[str, Told]:
        return {topic: Told(found) for topic, found in self._found.items()}


@pytest.mark.parametrize("number", [1, 0xFBFF << 112, 0x13C9659DF9754A448B774FE1275735C3, (1 << 128) - 1, 1 << 127])
def test_both_clients_give_the_same_text(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def signed(bits: int) -> int:
        return bits - (1 << 64) if bits >> 63 else bits

    given = Uuid(signed(number >> 64), signed(number & (1 << 64) - 1))
    monkeypatch.setattr(topic_ids, "admin", lambda *_: Admin({"t": given}))
    found = topic_ids.topic_ids("x:1", {}, ["t"])["t"]
    assert found == topic_ids.shown(UUID(int=number))
    assert len(found) == 22
    assert not set(found) & set("/+=")


def test_ids_that_are_not_known_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    told = {"old": Uuid(0, 0), "none": None, "gone": unknown, "there": Uuid(0, 1)}
    monkeypatch.setattr(topic_ids, "admin", lambda *_: Admin(told))
    assert list(topic_ids.topic_ids("x:1", {}, list(told))) == ["there"]
    assert topic_ids.shown(None) == topic_ids.shown(UUID(int=0)) == topic_ids.UNKNOWN
