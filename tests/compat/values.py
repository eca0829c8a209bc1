"""Values of the API that a job may keep in pickled state: they are found again by the module that they had."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Any

from tidegate.common import Duration, Instant, Row, RowKind, Time, Types
from tidegate.datastream import OutputTag, TimeWindow
from tidegate.datastream.window import CountWindow, GlobalWindow

FILE = "values.json"
VALUES: dict[str, Any] = {
    "named row": Row(a=1, b="x"),
    "row": Row(1, [2.5, None]),
    "row kind": RowKind.UPDATE_AFTER,
    "time": Time.seconds(3),
    "duration": Duration.of_minutes(4),
    "instant": Instant(5, 6),
    "time window": TimeWindow(7, 8),
    "count window": CountWindow(9),
    "global window": GlobalWindow(),
    "types": Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LIST(Types.STRING())]),
    "output tag": OutputTag("late", Types.LONG()),
}


def write(directory: Path) -> None:
    texts = {name: base64.b64encode(pickle.dumps(value, 5)).decode() for name, value in VALUES.items()}
    (directory / FILE).write_text(json.dumps(texts, indent=1) + "\n")


def read(path: Path) -> dict[str, Any]:
    return {name: pickle.loads(base64.b64decode(text)) for name, text in json.loads(path.read_text()).items()}
