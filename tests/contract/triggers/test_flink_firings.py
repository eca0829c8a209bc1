"""Every trigger on every kind of window fires when Flink's window operator fires it: ``record.py`` says how that was recorded.

After each event the clock's timers that are due fire, as they do in a job. One thing is not as in Java: a window of event time that the
clock has passed fires again for what comes then (``AgainAfterTheEnd`` in ``RecordFirings.java``), as PyFlink's does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from tests.contract.triggers.cases import cases
from tests.contract.triggers.record import FIRINGS
from tidegate.common import Types
from tidegate.datastream import DataStream, OutputTag, ProcessWindowFunction, window
from tidegate.testing import OperatorHarness

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
LATE = OutputTag("late", PAIR)
CASES = cases()
FOUND = json.loads(FIRINGS.read_text())


class Values(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[str]:
        yield f"{key} {getattr(context.window(), 'start', 'all')}: {sorted(value for _, value in elements)}"


def test_each_case_was_recorded() -> None:
    assert len(FOUND) == len(CASES) > 200
    assert sum(len(fired) for one in FOUND for fired in one) > 3_000


@pytest.mark.parametrize(
    "number", range(len(CASES)), ids=lambda n: f"{n}-{CASES[n]['assigner'][0]}-{CASES[n]['trigger']}"
)
def test_fires_when_flink_fires_it(number: int) -> None:
    case = CASES[number]
    backend = "rocksdb" if number % 4 == 0 else "hashmap"
    found = []
    with OperatorHarness(
        lambda stream: _windowed(stream, case), PAIR, configuration={"state.backend.type": backend}
    ) as one:
        now, late = 0, 0
        for kind, time, *record in case["events"]:
            match kind:
                case "record":
                    one.push((record[0], record[1]), timestamp=time)
                case "watermark":
                    one.push_watermark(time)
                case _:
                    now = time
            one.advance_processing_time(now)
            lates = one.side_output(LATE)
            found.append(sorted([*one.take(), *(f"late {value}" for _, value in lates[late:])]))
            late = len(lates)
    assert found == FOUND[number], case


def _windowed(stream: DataStream, case: dict[str, Any]) -> DataStream:
    name, *lengths = case["assigner"]
    make = getattr(window, name)
    windows = stream.key_by(lambda pair: pair[0], Types.STRING()).window(
        make.create() if not lengths else make.with_gap(*lengths) if "Session" in name else make.of(*lengths)
    )
    windows = windows.trigger(_trigger(case["trigger"]))
    if case["lateness"]:
        windows = windows.allowed_lateness(case["lateness"])
    if "Event" in name:
        windows = windows.side_output_late_data(LATE)
    return windows.process(Values(), Types.STRING())


def _trigger(told: list[Any]) -> window.Trigger[Any, Any]:
    name, *of = told
    make = getattr(window, name)
    if name == "PurgingTrigger":
        found: window.Trigger[Any, Any] = make.of(_trigger(of[0]))
    else:
        found = make.of(*of) if of else make.create()
    return found
