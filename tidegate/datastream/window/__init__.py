"""Windows, their assigners, triggers and evictors (PyFlink: ``pyflink.datastream.window``).

    record ─▶ assigner: which windows ─▶ state of key and window ─▶ trigger: fire? ─▶ evictor ─▶ function

Times are ms since the epoch; a time window holds ``start <= t < end`` and fires when the watermark reaches
``max_timestamp()``, which is ``end - 1``.
"""

from __future__ import annotations

from tidegate.datastream.window.assigners import (
    GlobalWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from tidegate.datastream.window.counts import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from tidegate.datastream.window.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue
from tidegate.datastream.window.serializers import CountWindowSerializer, GlobalWindowSerializer, TimeWindowSerializer
from tidegate.datastream.window.sessions import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from tidegate.datastream.window.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from tidegate.datastream.window.windows import CountWindow, GlobalWindow, TimeWindow, Window

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DeltaEvictor",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
]
