"""Converts queryable state and its locations between model values and protobuf messages."""

from __future__ import annotations

from tidegate.model.ids import OperatorId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.kv_state import KvStateInfo, KvStateLocation, KvStatePlace
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.convert_errors import attempt_from_text


def kv_state_to_pb(info: KvStateInfo) -> common_pb2.KvStateInfo:
    return common_pb2.KvStateInfo(
        name=info.name,
        operator_id=info.operator_id,
        operator=info.operator,
        state_name=info.state_name,
        first_key_group=info.key_groups.start,
        last_key_group=info.key_groups.end,
        max_parallelism=info.max_parallelism,
        types=info.types,
    )


def kv_state_from_pb(message: common_pb2.KvStateInfo) -> KvStateInfo:
    return KvStateInfo(
        message.name,
        OperatorId(message.operator_id),
        message.operator,
        message.state_name,
        KeyGroupRange(message.first_key_group, message.last_key_group),
        message.max_parallelism,
        message.types,
    )


def places_to_pb(location: KvStateLocation) -> list[pb.KvStateLocationAnswer.Place]:
    return [
        pb.KvStateLocationAnswer.Place(
            first_key_group=place.key_groups.start,
            last_key_group=place.key_groups.end,
            attempt=str(place.attempt),
            address=place.address,
        )
        for place in location.places
    ]


def location_from_pb(message: pb.KvStateLocationAnswer) -> KvStateLocation | None:
    """Converts a message to a location; ``None`` when no subtask has registered the state. Raises ``CorruptFrame``."""
    if not message.HasField("info"):
        return None
    return KvStateLocation(
        kv_state_from_pb(message.info),
        tuple(
            KvStatePlace(
                KeyGroupRange(place.first_key_group, place.last_key_group),
                attempt_from_text(place.attempt),
                place.address,
            )
            for place in message.places
        ),
    )
