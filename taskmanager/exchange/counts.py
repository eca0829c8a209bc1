"""What one subtask received and sent over its channels, counted by frame of records (Flink calls it a buffer)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ReceivedFrames:
    """Written and read by the subtask's thread. Local is what came over a Unix socket, from a subtask of this machine."""

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
