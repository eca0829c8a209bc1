"""Starts TaskManagers by the client of a scheduler, with three commands: start one, stop one, list all.

    start  {id} {slots} {command} {script}   prints the scheduler's own name of what it started last
    stop   {id} {job}                        ``{job}``: that name
    list                                     a line each: that name first, ``{id}`` anywhere after it

A placeholder that is a word of its own stands for several words, within a word for one; no shell is used, unless the command
is one (``sh -c '...'``).
"""

from __future__ import annotations

import asyncio
import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.jobmanager.service.workers.port import CommandLine, Ended
from tidegate.model.errors import ConfigurationError, ExternalError
from tidegate.model.ids import TaskManagerId
from tidegate.model.options import ResourceManagerOptions

_log = logging.getLogger("jobmanager")
ANSWER_S = 60.0
"""The timeout of a command, in seconds. Chosen, not measured: the client of a busy scheduler takes seconds."""
ABSENCES = 2
"""How many lists in a row must lack a worker before it has ended: a scheduler may list what was just started a moment late."""
SHOWN_CHARACTERS = 300
"""How many of the last characters of a command's output an error message shows: enough for its last line."""
_WORKER = re.compile(r"worker-\S{6}-\d+")
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_ALLOWED = {
    ResourceManagerOptions.START_COMMAND.key: {"id", "slots", "command", "script"},
    ResourceManagerOptions.STOP_COMMAND.key: {"id", "job"},
    ResourceManagerOptions.LIST_COMMAND.key: set[str](),
}


@dataclass(frozen=True, slots=True)
class Commands:
    """The three commands, each as words with placeholders."""

    start: tuple[str, ...]
    stop: tuple[str, ...]
    list: tuple[str, ...]

    @staticmethod
    def of(texts: Mapping[str, str | None]) -> Commands:
        """Parses the configured command lines that start, stop and list TaskManagers through the client of a scheduler.

        ``texts``: the command lines by the keys of their options. Raises ``ConfigurationError``, which lists every problem: commands
        that are not set, cannot be split into words or have unknown placeholders.
        """
        problems, words = [], []
        for key, allowed in _ALLOWED.items():
            text = texts.get(key)
            if not text:
                problems.append(f"tidegate.resourcemanager.driver is command, and {key} is not set")
                continue
            try:
                words.append(tuple(shlex.split(text)))
            except ValueError as error:
                problems.append(f"{key}: {error}: {text}")
                continue
            unknown = sorted(set(_PLACEHOLDER.findall(text)) - allowed)
            if unknown:
                known = ", ".join(f"{{{name}}}" for name in sorted(allowed)) or "none"
                problems.append(f"{key} has no placeholder {{{unknown[0]}}}; there are: {known}")
        if problems:
            raise ConfigurationError("; ".join(problems))
        return Commands(*words)


class CommandDriver:
    """Starts and stops workers by the client of a scheduler. Belongs to the loop's thread."""

    def __init__(
        self, commands: Commands, command_line: CommandLine, scripts: Path, interval_ms: int, ended: Ended
    ) -> None:
        """Creates a driver without workers. ``scripts``: a directory for start scripts."""
        self._commands = commands
        self._command_line = command_line
        self._scripts = scripts
        self._interval_s = interval_ms / 1000
        self._ended = ended
        self._jobs: dict[TaskManagerId, str] = {}
        self._absences: dict[TaskManagerId, int] = {}
        self._polling: asyncio.Task[None] | None = None

    async def find(self) -> Sequence[TaskManagerId]:
        try:
            self._jobs = await self._listed()
        except ExternalError as error:
            _log.warning("could not list the TaskManagers that an earlier JobManager started: %s", error.message)
        self._polling = asyncio.create_task(self._poll())
        return tuple(self._jobs)

    async def start(self, worker_id: TaskManagerId, slots: int) -> None:
        words = list(self._command_line(worker_id, slots))
        try:
            script = self._scripts / f"{worker_id}.sh"
            script.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n", encoding="utf-8")
            script.chmod(0o700)
            values: dict[str, Sequence[str]] = {
                "id": [worker_id],
                "slots": [str(slots)],
                "command": words,
                "script": [str(script)],
            }
            said = await _run(self._commands.start, values)
            if not said.split():
                raise ExternalError(
                    f"{self._commands.start[0]} did not print the name of the TaskManager that it started"
                )
        except OSError as error:
            self._ended(worker_id, f"cannot write {error.filename}: {error.strerror}")
        except ExternalError as error:
            self._ended(worker_id, f"the command that starts it failed: {error.message}")
        else:
            self._jobs[worker_id] = said.split()[-1]
            self._absences[worker_id] = 0

    async def stop(self, worker_id: TaskManagerId) -> None:
        job = self._jobs.get(worker_id)
        if job is None:
            return
        try:
            await _run(self._commands.stop, {"id": [worker_id], "job": [job]})
        except ExternalError as error:
            _log.error("could not stop TaskManager %s (%s): %s", worker_id, job, error.message)

    async def close(self, *, stop_all: bool) -> None:
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        if stop_all:
            await asyncio.gather(*(self.stop(worker_id) for worker_id in list(self._jobs)))

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            before = set(self._jobs)
            try:
                listed = await self._listed()
            except ExternalError as error:
                _log.warning("could not list the running TaskManagers: %s", error.message)
                continue
            for worker_id in before:
                self._note(worker_id, is_listed=worker_id in listed)

    def _note(self, worker_id: TaskManagerId, *, is_listed: bool) -> None:
        absences = 0 if is_listed else self._absences.get(worker_id, 0) + 1
        self._absences[worker_id] = absences
        if absences >= ABSENCES and worker_id in self._jobs:
            job = self._jobs.pop(worker_id)
            del self._absences[worker_id]
            self._ended(worker_id, f"the scheduler does not list it any more ({job})")

    async def _listed(self) -> dict[TaskManagerId, str]:
        found: dict[TaskManagerId, str] = {}
        for line in (await _run(self._commands.list, {})).splitlines():
            name = _WORKER.search(line)
            if name is not None and line.split():
                found[TaskManagerId(name[0])] = line.split()[0]
        return found


def _filled(words: Sequence[str], values: Mapping[str, Sequence[str]]) -> list[str]:
    filled: list[str] = []
    for word in words:
        whole = _PLACEHOLDER.fullmatch(word)
        if whole is not None and whole[1] in values:
            filled += values[whole[1]]
        else:
            filled.append(_PLACEHOLDER.sub(lambda found: shlex.join(values.get(found[1], (found[0],))), word))
    return filled


async def _run(words: Sequence[str], values: Mapping[str, Sequence[str]]) -> str:
    """Runs a command; returns its output. Raises ``ExternalError`` when it cannot be started, fails, or takes too long."""
    command = _filled(words, values)
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ExternalError(f"{command[0]}: {error.strerror or error}") from None
    try:
        async with asyncio.timeout(ANSWER_S):
            said, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise ExternalError(f"{command[0]} did not end within {ANSWER_S:.0f} s") from None
    if process.returncode != 0:
        text = (errors or said).decode("utf-8", "replace").strip()[-SHOWN_CHARACTERS:]
        raise ExternalError(f"{command[0]} ended with exit code {process.returncode}: {text or 'and printed nothing'}")
    return said.decode("utf-8", "replace")
