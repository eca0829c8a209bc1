"""Converts the events of operators and their coordinators between model values and protobuf messages."""

from __future__ import annotations

from typing import assert_never

from tidegate.model.coordinators.operator_events import (
    AddSplits,
    CoordinatorEvent,
    DiscoveryNoted,
    NoMoreSplits,
    OperatorEvent,
    ReaderEvent,
    ReportBacklog,
    RequestDiscovery,
    RequestSplit,
    SourceSplit,
    SplitsDiscovered,
    StartDiscovery,
)
from tidegate.model.errors import VersionMismatch
from tidegate.model.ids import OperatorId
from tidegate.pb import common_pb2 as pb


def split_to_pb(split: SourceSplit) -> pb.SourceSplit:
    return pb.SourceSplit(split_id=split.split_id, content=split.content, size_bytes=split.size_bytes)


def split_from_pb(message: pb.SourceSplit) -> SourceSplit:
    return SourceSplit(message.split_id, message.content, message.size_bytes)


def operator_event_to_pb(event: OperatorEvent) -> pb.OperatorEvent:
    message = pb.OperatorEvent(operator_id=event.operator_id, number=event.number)
    match event.event:
        case RequestSplit():
            message.request_split.SetInParent()
        case AddSplits(splits):
            message.add_splits.splits.extend(map(split_to_pb, splits))
            message.add_splits.SetInParent()
        case NoMoreSplits():
            message.no_more_splits.SetInParent()
        case ReaderEvent(enumerator, subtask, content):
            message.reader_event.enumerator = enumerator
            message.reader_event.subtask = subtask
            message.reader_event.content = content
        case ReportBacklog(is_processing):
            message.report_backlog.is_processing = is_processing
            message.report_backlog.SetInParent()
        case RequestDiscovery():
            message.request_discovery.SetInParent()
        case StartDiscovery(known):
            message.start_discovery.known.extend(map(split_to_pb, known))
            message.start_discovery.SetInParent()
        case SplitsDiscovered(splits, reader):
            message.splits_discovered.splits.extend(map(split_to_pb, splits))
            message.splits_discovered.reader = reader
        case DiscoveryNoted(number):
            message.discovery_noted.number = number
        case _:
            assert_never(event.event)
    return message


def operator_event_from_pb(message: pb.OperatorEvent) -> OperatorEvent:
    """Converts a message to an operator event. Raises ``VersionMismatch`` for an unknown event."""
    return OperatorEvent(OperatorId(message.operator_id), message.number, _event_of(message))


def _event_of(message: pb.OperatorEvent) -> CoordinatorEvent:
    match message.WhichOneof("event"):
        case "request_split":
            return RequestSplit()
        case "add_splits":
            return AddSplits(tuple(map(split_from_pb, message.add_splits.splits)))
        case "no_more_splits":
            return NoMoreSplits()
        case "reader_event":
            reader_event = message.reader_event
            return ReaderEvent(OperatorId(reader_event.enumerator), reader_event.subtask, reader_event.content)
        case "report_backlog":
            return ReportBacklog(message.report_backlog.is_processing)
        case "request_discovery":
            return RequestDiscovery()
        case "start_discovery":
            return StartDiscovery(tuple(map(split_from_pb, message.start_discovery.known)))
        case "splits_discovered":
            found = message.splits_discovered
            return SplitsDiscovered(tuple(map(split_from_pb, found.splits)), found.reader)
        case "discovery_noted":
            return DiscoveryNoted(message.discovery_noted.number)
        case _:
            raise VersionMismatch(
                f"operator {message.operator_id} was sent an event of a kind that this tidegate does not know; install the same "
                "version everywhere"
            )
