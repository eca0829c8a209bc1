"""Copies what the processes of a warm cluster print: to the terminal of the program that has borrowed it, else into a log of the keeper."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Sequence
from contextlib import suppress

_PIECE = 65536
"""Bytes that are read at once: as many as a pipe of Linux holds."""


class CopiedOutput:
    """Copies from pipes to descriptors, in a thread of its own, until it is closed. The pipes do not block; what cannot be written is dropped."""

    def __init__(self, pipes: Sequence[int], targets: Sequence[int]) -> None:
        self._targets = dict(zip(pipes, targets, strict=True))
        self._lock = threading.Lock()
        self._ended, self._ends = os.pipe()
        self._thread = threading.Thread(target=self._run, name="warm-output", daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Returns when all that the pipes hold is copied."""
        with self._lock:
            self._copy()

    def close(self) -> None:
        """Copies what the pipes hold, and ends. The pipes stay open."""
        self.settle()
        os.close(self._ends)
        self._thread.join()
        os.close(self._ended)

    def _run(self) -> None:
        poller = select.poll()
        for descriptor in (*self._targets, self._ended):
            poller.register(descriptor, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poller.poll()]
            if self._ended in ready:
                return
            with self._lock:
                self._copy()
            for descriptor in ready:
                if descriptor not in self._targets:
                    poller.unregister(descriptor)

    def _copy(self) -> None:
        """Copies until the pipes are empty; forgets those that all writers have closed."""
        ended = []
        for pipe, target in self._targets.items():
            with suppress(BlockingIOError):
                while part := os.read(pipe, _PIECE):
                    _write(target, part)
                ended.append(pipe)
        for pipe in ended:
            del self._targets[pipe]


def _write(target: int, part: bytes) -> None:
    view = memoryview(part)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:
            select.select([], [target], [])
        except OSError:  # its reader is gone, as after `| head`
            return
