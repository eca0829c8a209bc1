"""The open heartbeat streams, one for each session of a TaskManager. A stream that breaks reveals a lost connection at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tidegate.model.ids import TaskManagerId


@dataclass(eq=False)
class HeartbeatStream:
    """One open stream. ``closed`` is set when either side ends it; ``reason`` says why.

    ``is_over``: the TaskManager has announced that it shuts down.
    """

    task_manager_id: TaskManagerId
    session: str
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""
    is_over: bool = False

    def end(self) -> None:
        """Closes the stream of a TaskManager that announced its shutdown."""
        self.is_over = True
        self.close("it is shutting down")

    def close(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.closed.set()


class HeartbeatStreams:
    """All open heartbeat streams, by TaskManager and session."""

    def __init__(self) -> None:
        self._streams: dict[tuple[TaskManagerId, str], HeartbeatStream] = {}

    def opened(self, task_manager_id: TaskManagerId, session: str) -> HeartbeatStream:
        """Registers a new stream; an older one of the same session is closed."""
        self.close(task_manager_id, session, "replaced by a new heartbeat stream")
        stream = HeartbeatStream(task_manager_id, session)
        self._streams[task_manager_id, session] = stream
        return stream

    def ended(self, stream: HeartbeatStream) -> bool:
        """Removes an ended stream; returns whether it was the session's current one, so that the TaskManager is lost or reconnects."""
        key = (stream.task_manager_id, stream.session)
        if self._streams.get(key) is not stream:
            return False
        del self._streams[key]
        return True

    def close(self, task_manager_id: TaskManagerId, session: str, reason: str) -> None:
        """Closes the stream of a session, if it is open."""
        stream = self._streams.pop((task_manager_id, session), None)
        if stream is not None:
            stream.close(reason)

    def close_all(self, reason: str) -> None:
        for task_manager_id, session in list(self._streams):
            self.close(task_manager_id, session, reason)
