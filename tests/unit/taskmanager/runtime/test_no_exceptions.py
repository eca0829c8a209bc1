"""What user code raises that is no ``Exception`` fails its subtask with an error of the user's, wherever it was raised."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tests.unit.tidegate.datastream.graph_kit import make_env, numbers
from tidegate.common import Time, Types
from tidegate.datastream import AsyncDataStream, AsyncFunction, DataStream, KeyedProcessFunction, MapFunction

LONG = Types.LONG()


class Stop(BaseException):
    """No ``Exception``."""


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, since the path of a Unix socket may be 100 characters long."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield Path(path)


class Opens(MapFunction):
    def __init__(self, raised: BaseException) -> None:
        self.raised = raised

    def open(self, runtime_context: Any) -> None:
        raise self.raised

    def map(self, value: Any) -> Any:
        return value


class OnTimer(KeyedProcessFunction):
    def __init__(self, raised: BaseException) -> None:
        self.raised = raised

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        raise self.raised


class Awaits(AsyncFunction[int, int]):
    def __init__(self, raised: BaseException) -> None:
        self.raised = raised

    async def async_invoke(self, value: int) -> list[int]:
        raise self.raised


def raising(raised: BaseException) -> Callable[[Any], Any]:
    def function(value: Any) -> Any:
        raise raised

    return function


PIECES: dict[str, Callable[[DataStream, BaseException], DataStream]] = {
    "map": lambda s, raised: s.map(raising(raised), LONG),
    "filter": lambda s, raised: s.filter(raising(raised)),
    "open": lambda s, raised: s.map(Opens(raised), LONG),
    "key": lambda s, raised: s.key_by(raising(raised), LONG).map(lambda value: value, LONG),
    "timer": lambda s, raised: s.key_by(lambda value: value, LONG).process(OnTimer(raised), LONG),
    "async": lambda s, raised: AsyncDataStream.unordered_wait(s, Awaits(raised), Time.seconds(100), 5, LONG),
}


@pytest.mark.parametrize(
    "raised", [KeyboardInterrupt("enough"), SystemExit(3), Stop("enough")], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("piece", PIECES)
def test_is_named_as_the_users(piece: str, raised: BaseException, directory: Path) -> None:
    env = make_env(1)
    PIECES[piece](numbers(env), raised).sink_to(CollectingSink("none"))
    job = InProcessJob(env.build(), directory)
    job.start_failing()
    job.until(lambda: bool(job.errors), "the failure", failing=True)
    job.cut_off()
    error = job.errors[0]
    assert (error.code, error.domain) == ("user-function", "user"), error
    if piece == "async":
        assert type(raised).__name__ in error.message
    else:
        expected = "called exit (3)" if isinstance(raised, SystemExit) else f"raised {type(raised).__name__}: enough"
        assert error.message == f"user code {expected}"
    assert "test_no_exceptions.py" in error.details
