"""Counts the frames of records that one subtask received (Flink calls a frame a buffer)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ReceivedFrames:
    """Frames and bytes that a subtask received, used from its thread. Local: over a Unix socket, from a subtask on the same machine."""

    local_frames: int = 0
    local_bytes: int = 0
    remote_frames: int = 0
    remote_bytes: int = 0

    def add(self, frames: int, size_bytes: int, *, is_local: bool) -> None:
        if is_local:
            self.local_frames += frames
            self.local_bytes += size_bytes
        else:
            self.remote_frames += frames
            self.remote_bytes += size_bytes
