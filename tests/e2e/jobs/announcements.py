"""Values, and in front of each fiftieth an event for every subtask further down, which answers against the stream.

    values (1) ─▶ announce (1) ── rebalance ──▶ hear (2): the value, and the version that the last event said ─▶ file sink
                      ▲──────────── Heard ─────────┘      and each event that it hears of

The types of the events are those of this script, which no subtask can import.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream import (
    CheckpointedFunction,
    EventListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TaskEventListener,
    register_user_event,
)
from tidegate.datastream.state import ListStateDescriptor

EVERY = 50
HEARERS = 2
_PAUSE_S = 0.005
"""For each value: about what its subtask has for it at the rate of the test, so that some are always in flight."""


@dataclass
class VersionChanged:
    version: int


@dataclass
class Heard:
    version: int
    by: int


register_user_event("test.version-changed", VersionChanged)
register_user_event("test.heard", Heard)


class Announce(ProcessFunction, TaskEventListener):
    def __init__(self, trace: str) -> None:
        self.trace = Path(trace)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        if value % EVERY == 0:
            self.context.emit_event(VersionChanged(value // EVERY))
        yield value

    def on_task_event(self, event: object) -> None:
        assert isinstance(event, Heard)
        (self.trace / f"attempt {self.context.get_attempt_number()}, subtask {event.by}").touch()


class Hear(ProcessFunction, EventListener, CheckpointedFunction):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.kept = context.get_operator_state_store().get_list_state(ListStateDescriptor("version", Types.LONG()))
        self.version = max(self.kept.get(), default=-1)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.kept.update([self.version])

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        time.sleep(_PAUSE_S)
        yield f"value {value} {self.version}"

    def on_event(self, event: object) -> Iterable[Any]:
        assert isinstance(event, VersionChanged)
        self.version = event.version
        subtask = self.context.get_index_of_this_subtask()
        self.context.send_task_event(Heard(event.version, subtask))
        yield f"event {event.version} {subtask}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--trace", required=True)
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(200)
    source = ThrottledSource(NumberSequenceSource(0, arguments.rows - 1), arguments.rate)
    values = env.from_source(source, WatermarkStrategy.no_watermarks(), "values").uid("values").set_parallelism(1)
    announced = values.process(Announce(arguments.trace), Types.LONG()).name("announce").uid("announce")
    heard = announced.set_parallelism(1).rebalance().process(Hear(), Types.STRING()).name("hear").uid("hear")
    heard.set_parallelism(HEARERS).sink_to(FileSink.for_text(arguments.output)).uid("sink").set_parallelism(HEARERS)
    env.execute("announcements")


if __name__ == "__main__":
    main()
