"""Starts TaskManagers as processes of this machine. They outlive a JobManager that is killed: the next one finds them by their pid files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Coroutine, Sequence
from pathlib import Path

import psutil

from tidegate.aio.process import read_pid_file, write_pid_file
from tidegate.aio.working_directories import sweep_dead
from tidegate.jobmanager.service.workers.port import CommandLine, Ended
from tidegate.model.ids import TaskManagerId

_log = logging.getLogger("jobmanager")
_PREFIX = "taskmanager-"
LOOK_S = 1.0
"""How often processes of an earlier JobManager are checked, in seconds. Chosen, not measured."""
END_S = 9.0
"""How long a process may take to end before it is killed, in seconds. Chosen, not measured: a TaskManager takes up to 5 s for its workers to end."""
LAST_WORDS_BYTES = 4_096
"""How many of the last bytes of a process's output are read for its last line."""


class ProcessDriver:
    """Starts and stops workers as local processes. Belongs to the loop's thread."""

    def __init__(
        self, command_line: CommandLine, pids: Path, logs: Path, temporary: Path, ended: Ended, names: str = "worker-*"
    ) -> None:
        """Creates a driver without workers. ``temporary``: where the processes make working directories; ``names``: the pattern of ids of TaskManagers that it
        starts.
        """
        self._names = names
        self._command_line = command_line
        self._pids = pids
        self._logs = logs
        self._temporary = temporary
        self._ended = ended
        self._processes: dict[TaskManagerId, int] = {}
        self._children: dict[TaskManagerId, asyncio.subprocess.Process] = {}
        """Those of the processes that this JobManager started."""
        self._watching: set[asyncio.Task[None]] = set()

    async def find(self) -> Sequence[TaskManagerId]:
        for file in sorted(self._pids.glob(f"{_PREFIX}{self._names}.pid")):
            pid = read_pid_file(file)
            if pid is not None:
                worker_id = TaskManagerId(file.stem.removeprefix(_PREFIX))
                self._processes[worker_id] = pid
                self._watch(self._wait_for_stranger(worker_id, pid))
        return tuple(self._processes)

    async def start(self, worker_id: TaskManagerId, slots: int) -> None:
        out = self._out(worker_id)
        try:
            with out.open("wb") as file:
                process = await asyncio.create_subprocess_exec(
                    *self._command_line(worker_id, slots),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                )
        except OSError as error:
            self._ended(worker_id, f"cannot start it: {error.strerror or error}")
            return
        self._processes[worker_id], self._children[worker_id] = process.pid, process
        with contextlib.suppress(
            OSError, psutil.Error
        ):  # the process writes it, too, but perhaps after the command that stops the cluster has looked
            write_pid_file(self._pids / f"{_PREFIX}{worker_id}.pid", process.pid)
        self._watch(self._wait(worker_id, process))

    async def stop(self, worker_id: TaskManagerId) -> None:
        if worker_id in self._processes:
            await self._end(worker_id)

    async def close(self, *, stop_all: bool) -> None:
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        if stop_all:
            await asyncio.gather(*map(self._end, self._processes))
            await asyncio.to_thread(
                sweep_dead, self._temporary
            )  # what a killed one left, if no other has started since

    async def _end(self, worker_id: TaskManagerId) -> None:
        """Sends SIGTERM to a process, and later SIGKILL to what is left of it and its descendants."""
        pid, child = self._processes[worker_id], self._children.get(worker_id)
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            family = [process, *process.children(recursive=True)]
            process.send_signal(signal.SIGTERM)
            if not await _has_ended(process, child):
                _log.warning("TaskManager process %d did not end within %.0f s and is killed", pid, END_S)
            for left in family:
                with contextlib.suppress(psutil.Error):
                    left.kill()

    def _watch(self, watching: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(watching)
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    async def _wait(self, worker_id: TaskManagerId, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        how = f"it ended with exit code {code}" if code >= 0 else f"it was ended by {signal.Signals(-code).name}"
        said = self._last_output(worker_id) if code else ""
        self._gone(worker_id, f"{how}{said}; log: {self._log_of(worker_id)}")

    async def _wait_for_stranger(self, worker_id: TaskManagerId, pid: int) -> None:
        """Waits for the end of a process that is not a child of this one."""
        while True:
            await asyncio.sleep(LOOK_S)
            if not psutil.pid_exists(pid):
                self._gone(worker_id, f"its process (pid {pid}) is gone; log: {self._log_of(worker_id)}")
                return

    def _gone(self, worker_id: TaskManagerId, detail: str) -> None:
        self._processes.pop(worker_id, None)
        self._children.pop(worker_id, None)
        with contextlib.suppress(OSError):  # a process that was killed has left it
            (self._pids / f"{_PREFIX}{worker_id}.pid").unlink()
        self._ended(worker_id, detail)

    def _last_output(self, worker_id: TaskManagerId) -> str:
        """Returns the last line or error that the process printed, for a message."""
        try:
            lines = self._out(worker_id).read_bytes()[-LAST_WORDS_BYTES:].decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        said = [line.strip() for line in lines if line.strip()]
        errors = [line for line in said if line.startswith("error:")]
        return f": {(errors or said)[-1]}" if said else ""

    def _out(self, worker_id: TaskManagerId) -> Path:
        return self._logs / f"{_PREFIX}{worker_id}.out"

    def _log_of(self, worker_id: TaskManagerId) -> Path:
        log = self._logs / f"{_PREFIX}{worker_id}.log"
        return log if log.exists() else self._out(worker_id)


async def _has_ended(process: psutil.Process, child: asyncio.subprocess.Process | None) -> bool:
    """Waits up to ``END_S``; returns whether the process has ended. A child's exit code is left to the loop, which needs it."""
    if child is None:
        _, alive = await asyncio.to_thread(psutil.wait_procs, [process], END_S)
        return not alive
    try:
        async with asyncio.timeout(END_S):
            await child.wait()
    except TimeoutError:
        return False
    return True
