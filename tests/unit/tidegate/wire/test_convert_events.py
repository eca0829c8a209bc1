"""Events of coordinators survive the wire."""

from __future__ import annotations

import pytest

from tidegate.model.coordinators.operator_events import (
    ANY_READER,
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
from tidegate.pb import common_pb2
from tidegate.wire.convert_events import operator_event_from_pb, operator_event_to_pb

OPERATOR = OperatorId("a" * 32)


@pytest.mark.parametrize(
    "event",
    [
        RequestSplit(),
        NoMoreSplits(),
        AddSplits(()),
        AddSplits((SourceSplit("a@0", b"\x00\xff", 1 << 40),)),
        ReaderEvent(OperatorId("b" * 32), 3, b"\x00\xff"),
        ReportBacklog(True),
        ReportBacklog(False),
        RequestDiscovery(),
        StartDiscovery(()),
        StartDiscovery((SourceSplit("a@0", b"\x00\xff", 7),)),
        SplitsDiscovered((SourceSplit("a@0", b"\x00\xff", 7),), 0),
        SplitsDiscovered((SourceSplit("a@0", b""),), ANY_READER),
        DiscoveryNoted(1 << 40),
    ],
)
def test_an_event_comes_back_as_it_was(event: CoordinatorEvent) -> None:
    told = OperatorEvent(OPERATOR, 3, event)
    message = common_pb2.OperatorEvent.FromString(operator_event_to_pb(told).SerializeToString())
    assert operator_event_from_pb(message) == told


def test_an_event_of_another_version_is_refused() -> None:
    with pytest.raises(VersionMismatch, match="does not know"):
        operator_event_from_pb(common_pb2.OperatorEvent(operator_id=OPERATOR, number=1))
