from __future__ import annotations

import json
import sys
import threading
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.measuring.profiler import BACKPRESSURED, IDLE, KINDS, Profiler, kind_of_file
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters
from tidegate.wire.task_metrics import PROFILE


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        ("tidegate.records.record_codec", "conversion"),
        ("tidegate.taskmanager.runtime.conversion", "conversion"),
        ("tidegate.taskmanager.exchange.result_partition", "exchange"),
        ("tidegate.wire.frames", "serialisation"),
        ("tidegate.taskmanager.keyed_state.heap.copy_on_write_table", "state"),
        ("tidegate.taskmanager.runtime.checkpointing.snapshots", "snapshot"),
        ("tidegate.taskmanager.operators.rows.keyed", "operators"),
        ("tidegate.taskmanager.operators.rows.selectors", "key hashing"),
        ("tidegate.connectors.file_sink", "source and sink"),
        ("tidegate.taskmanager.runtime.subtask", "runtime"),
    ],
)
def test_a_file_of_ours_is_a_kind_of_work(module: str, kind: str) -> None:
    __import__(module)
    assert kind_of_file(str(sys.modules[module].__file__)) == kind


def test_libraries_work_for_their_caller_and_all_else_is_the_users() -> None:
    assert kind_of_file(str(json.__file__)) is None
    assert kind_of_file(str(pa.__file__)) is None
    assert kind_of_file("<frozen importlib._bootstrap>") is None
    assert kind_of_file("/srv/jobs/job.py") == "user function"
    assert kind_of_file("<stdin>") == "user function"


def is_inside(frame: FrameType | None, file: str) -> bool:
    while frame is not None and not frame.f_code.co_filename.endswith(file):
        frame = frame.f_back
    return frame is not None


def spent(counters: TaskCounters) -> dict[str, float]:
    return {name.removeprefix(PROFILE): ms for name, ms in counters.user.items() if ms}


def test_time_counts_for_the_innermost_frame_that_is_no_library() -> None:
    counters = TaskCounters()
    profiler = Profiler(0, counters, lambda: False)
    frames: list[FrameType] = []

    class Noticed(json.JSONEncoder):
        def default(self, o: Any) -> Any:
            frames.append(sys._getframe().f_back)  # type: ignore[arg-type]  # the library's frame
            return None

    json.dumps(object(), cls=Noticed)
    profiler.look(frames[0], 5.0)
    assert spent(counters) == {"user function": 5.0}
    assert {PROFILE + kind for kind in KINDS} == set(counters.user)


@pytest.mark.parametrize("congested", [True, False])
def test_waiting_is_for_room_or_for_input(congested: bool) -> None:
    counters, mailbox = TaskCounters(), Mailbox()
    waiter = threading.Thread(target=mailbox.wait, args=(None,))
    waiter.start()
    profiler = Profiler(waiter.ident or 0, counters, lambda: congested)
    frame: FrameType | None = None
    while not is_inside(frame, "mailbox.py"):
        frame = sys._current_frames()[waiter.ident or 0]
    profiler.look(frame, 7.0)
    mailbox.wake()
    waiter.join()
    assert spent(counters) == {BACKPRESSURED if congested else IDLE: 7.0}
