"""Injects the faults of ``tidegate.testing.faults`` into one TaskManager, for users' tests of their jobs.

    kill@3                    SIGKILL to this TaskManager when a subtask here has passed barrier 3, before any other process learns of it
    drop-acknowledgement@2    what subtasks here acknowledge of checkpoint 2 is lost
    delay-edge:50ms           what subtasks here receive from others comes so much later

They wrap parts of the service, which are unaware of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from google.protobuf.message import Message

from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, Misuse
from tidegate.model.options import RuntimeOptions
from tidegate.model.units import parse_duration_ms
from tidegate.pb import common_pb2, jobmanager_pb2, taskmanager_pb2
from tidegate.security.signing import SigningNow
from tidegate.taskmanager.machines.task_events import SubmittedTask
from tidegate.taskmanager.service.servicer import NewToken, TaskManagerService
from tidegate.taskmanager.service.task_executor import TaskExecutor

_log = logging.getLogger(__name__)
_KILL = re.compile(r"kill@(\d+)")
_DROP = re.compile(r"drop-acknowledgement@(\d+)")
_DELAY = re.compile(r"delay-edge:(.+)")
_CHUNK_BYTES = 1 << 16
"""Size of the buffers of asyncio's streams."""

Tell = Callable[[str, Message], None]


@dataclass(frozen=True, slots=True)
class PlannedFaults:
    """The faults to inject. ``kill_at`` and ``drop_at``: ids of checkpoints. ``delay_ms``: delay of the data from other subtasks."""

    kill_at: frozenset[int] = frozenset()
    drop_at: frozenset[int] = frozenset()
    delay_ms: int = 0

    @staticmethod
    def of(texts: Sequence[str]) -> PlannedFaults:
        """Parses the faults. Raises ``ConfigurationError`` for a text that is none of the three."""
        kill, drop, delay_ms = set(), set(), 0
        for text in texts:
            if found := _KILL.fullmatch(text):
                kill.add(int(found[1]))
            elif found := _DROP.fullmatch(text):
                drop.add(int(found[1]))
            elif found := _DELAY.fullmatch(text):
                delay_ms = _duration_ms(found[1])
            else:
                raise _unknown(text)
        return PlannedFaults(frozenset(kill), frozenset(drop), delay_ms)

    def around(self, tell: Tell, kill: Callable[[], None] | None = None) -> Tell:
        """Wraps the function that sends to the JobManager, so that acknowledgements are lost or the process is killed before. ``kill``: ends this process."""
        if not (self.kill_at or self.drop_at):
            return tell

        def faulty(method: str, request: Message) -> None:
            if isinstance(request, jobmanager_pb2.AcknowledgeCheckpointRequest):
                ids = {one.checkpoint_id for one in request.acknowledgements}
                if ids & self.kill_at:
                    _log.warning("fault: killed at barrier %s", min(ids & self.kill_at))
                    (kill or _kill_this_process)()
                kept = [one for one in request.acknowledgements if one.checkpoint_id not in self.drop_at]
                if len(kept) < len(request.acknowledgements):
                    _log.warning("fault: acknowledgements of checkpoint %s are lost", min(ids & self.drop_at))
                    request = jobmanager_pb2.AcknowledgeCheckpointRequest(
                        generation=request.generation, acknowledgements=kept
                    )
                if not kept:
                    return
            tell(method, request)

        return faulty


class Delays:
    """Proxies in front of producers: what they send arrives ``delay_ms`` later, in order."""

    def __init__(self, delay_ms: int) -> None:
        self._delay_s = delay_ms / 1000
        self._more_s = self._until_s = 0.0
        self._stands_by = False
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()

    def stand_by(self) -> None:
        """Puts proxies in front of all producers from now on, so that faults can be requested later."""
        self._stands_by = True

    def delay_for(self, delay_ms: int, for_ms: int) -> None:
        """Adds a delay for some time. Raises ``Misuse`` where no connection goes through a proxy."""
        self._check()
        self._more_s, self._until_s = delay_ms / 1000, asyncio.get_running_loop().time() + for_ms / 1000

    def cut(self) -> None:
        """Breaks all connections. Raises ``Misuse`` where no connection goes through a proxy."""
        self._check()
        for writer in self._writers:
            writer.transport.abort()

    async def through(self, request: taskmanager_pb2.ConnectTaskRequest) -> None:
        """Replaces the producers' addresses in a request by those of proxies."""
        if self._delay_s or self._stands_by:
            for producer in request.producers:
                producer.address = await self._proxy(producer.address)

    def close(self) -> None:
        for server in self._servers:
            server.close()

    def _check(self) -> None:
        if not self._writers:
            raise Misuse(
                "no subtask of this TaskManager reads from another subtask now, so there is no connection to act on: choose a TaskManager whose subtasks do"
            )

    def _now_s(self) -> float:
        """Returns by how many seconds data that comes now is delayed."""
        more_s = self._more_s if asyncio.get_running_loop().time() < self._until_s else 0.0
        return self._delay_s + more_s

    async def _proxy(self, address: str) -> str:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                producer_reader, producer_writer = await _dial(address)
                both = {writer, producer_writer}
                self._writers |= both
                await asyncio.gather(
                    _copy(reader, producer_writer, lambda: 0.0),
                    _copy(producer_reader, writer, self._now_s),
                    return_exceptions=True,
                )
                self._writers -= both
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


class DelayedService(TaskManagerService):
    """The TaskManager's service with proxies: its subtasks get the addresses of proxies."""

    def __init__(
        self, executor: TaskExecutor, new_token: NewToken, delays: Delays, signing: SigningNow | None = None
    ) -> None:
        super().__init__(executor, new_token, signing)
        self._delays = delays

    def sees(self, task: SubmittedTask) -> None:
        if Configuration.from_strings(task.configuration).get(RuntimeOptions.ALLOW_FAULTS):
            self._delays.stand_by()

    async def ConnectTask(self, request: taskmanager_pb2.ConnectTaskRequest, context: object) -> common_pb2.Ack:
        await self._delays.through(request)
        return await super().ConnectTask(request, context)


async def _dial(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.startswith("unix:"):
        return await asyncio.open_unix_connection(address.removeprefix("unix:"))
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: Callable[[], float]) -> None:
    """Copies a stream to its end. Each chunk is sent ``delay_s()`` after it came, in order, however many are waiting."""
    on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def deliver() -> None:
        while True:
            due, data = await on_the_way.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()

    delivering = asyncio.create_task(deliver())
    try:
        while True:
            data = await reader.read(_CHUNK_BYTES)
            on_the_way.put_nowait((loop.time() + delay_s(), data))
            if not data:
                break
    except OSError:
        on_the_way.put_nowait((0.0, b""))
    await delivering


def _duration_ms(text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise ConfigurationError(f"bad configuration: tidegate.testing.faults: {error}") from None


def _unknown(text: str) -> ConfigurationError:
    return ConfigurationError(
        f"bad configuration: tidegate.testing.faults: {text!r} is none of kill@<checkpoint>, "
        "drop-acknowledgement@<checkpoint>, delay-edge:<duration>"
    )


def _kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
