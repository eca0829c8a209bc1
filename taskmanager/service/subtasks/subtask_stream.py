"""The TaskManager's end of one control stream, for writing (``tidegate.taskmanager.service.subtask_control`` reads)."""

from __future__ import annotations

import asyncio

from tidegate.pb import subtask_pb2
from tidegate.wire import control_frames as frames


class SubtaskStream:
    """Sends messages to one subtask, in order, until ``close``. A message is in the socket when ``send`` returns, if there is space."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def send(self, message: subtask_pb2.ToSubtask) -> None:
        self.pass_on(frames.frame(message))

    def pass_on(self, mail: bytes) -> None:
        """Sends a framed message. It is dropped if the stream is closed or broken, whose end is reported elsewhere."""
        if not self._writer.is_closing():
            self._writer.write(mail)

    async def room(self) -> None:
        """Waits until the subtask has read most of what was sent. Raises ``ConnectionError``."""
        await self._writer.drain()

    def close(self) -> None:
        """Ends the stream after everything sent before."""
        self._writer.close()
