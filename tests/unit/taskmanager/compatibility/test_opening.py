"""Functions are opened in a process of its own, which is bounded and has no network."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tidegate.cli.program import run_program
from tidegate.datastream._graph.executor import PlanRecorded, PlanRecorder
from tidegate.model.program import OperatorSpec
from tidegate.records.pickling import loads
from tidegate.taskmanager.compatibility.declared_states import DeclaredStates
from tidegate.taskmanager.compatibility.opening import NotOpened, OpeningLimits, Question, open_apart

JOB = """
import socket, sys, time
from tidegate.common import Types
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.functions.state import ValueStateDescriptor

class Asks(KeyedProcessFunction):
    def __init__(self, name, first=lambda: None):
        self.name, self.first = name, first
    def open(self, runtime_context):
        print("what a function prints is no answer")
        self.first()
        self.state = runtime_context.get_state(ValueStateDescriptor(self.name, Types.LONG()))
    def process_element(self, value, ctx):
        yield value

PORT = int(sys.argv[1])

def hang():
    while True:
        time.sleep(1)

def fill():
    kept = []
    while True:
        kept.append(bytearray(1 << 24))

def reach():  # by libc, where no audit event is
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    peer = b"\\x02\\x00" + PORT.to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)
    if libc.connect(socket.socket().fileno(), peer, 16) == 0:
        raise ValueError("reached")

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
stream = env.from_collection([1], Types.LONG())
for name, first in [("one", lambda: None), ("hangs", hang), ("fills", fill), ("reaches", reach), ("last", lambda: None)]:
    stream = stream.key_by(lambda x: x, Types.LONG()).process(Asks(name, first), Types.LONG()).name(name)
stream.print()
env.execute("asks")
"""


@pytest.fixture(scope="module")
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture(scope="module")
def questions(server: socket.socket, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Question]:
    path = tmp_path_factory.mktemp("job") / "job.py"
    path.write_text(JOB)
    recorder = PlanRecorder()
    with suppress(PlanRecorded):
        run_program(path, [str(server.getsockname()[1])], recorder, {})
    assert recorder.graph is not None
    programs = [recorder.blobs[vertex.program] for vertex in recorder.graph.vertices]
    specs: list[tuple[OperatorSpec, bytes]] = [
        (spec, program) for program in programs for spec in loads(program).operators
    ]
    return {spec.name: (program, spec.operator_id) for spec, program in specs}


def states_of(found: DeclaredStates | NotOpened) -> set[str]:
    assert isinstance(found, DeclaredStates), found
    assert found.is_opened
    return {name for name in found.keyed if not name.startswith("_")}


def test_what_functions_ask_for_is_learned_apart(questions: dict[str, Question]) -> None:
    one, last = open_apart([questions["one"], questions["last"]])
    assert "one" in states_of(one)
    assert "last" in states_of(last)


def test_a_function_that_hangs_costs_the_others_nothing(questions: dict[str, Question]) -> None:
    began = time.monotonic()
    one, hangs, last = open_apart([questions[name] for name in ("one", "hangs", "last")], OpeningLimits(seconds=8))
    assert hangs == NotOpened("it takes longer than 8 s")
    assert "one" in states_of(one)
    assert "last" in states_of(last)
    assert time.monotonic() - began < 60


def test_memory_is_bounded(questions: dict[str, Question]) -> None:
    fills, last = open_apart([questions["fills"], questions["last"]], OpeningLimits(bytes=1 << 30))
    assert isinstance(fills, NotOpened)
    assert "memory" in fills.reason
    assert "last" in states_of(last)


LEAVES = """
import ctypes
unshare = ctypes.CDLL(None).unshare
raise SystemExit(unshare(0x40000000) != 0 and unshare(0x50000000) != 0)
"""


def test_the_kernel_keeps_native_code_from_the_network_where_it_lets_a_process_leave_it(
    questions: dict[str, Question],
) -> None:
    may_leave = subprocess.run([sys.executable, "-c", LEAVES], check=False).returncode == 0
    (found,) = open_apart([questions["reaches"]])
    if may_leave:
        assert "reaches" in states_of(found)
    else:
        assert found == NotOpened("ValueError: reached")
