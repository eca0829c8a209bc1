"""Runs an uploaded program in a process of its own until it has submitted its job.

    unpack ─▶ `tidegate run --detached` or `tidegate info` ─▶ exit code, what it printed ─▶ job id, graph, or why not

Laws:

1. The program's process and its descendants are gone when a run is over, however it ended.
2. It has a time limit, and only the end of its output is kept. Few run at once; some more may wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from tidegate.aio.parents import dying_with_this
from tidegate.aio.pool import Pool
from tidegate.aio.settings import handing_over
from tidegate.aio.transports import ways_of
from tidegate.jobmanager.programs.files import Program, ProgramFiles
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError, Misuse, NoResourceAvailable, TidegateError
from tidegate.model.graph import JobGraph
from tidegate.model.ids import JobId
from tidegate.model.options import SecurityOptions, WebOptions
from tidegate.pb.jobmanager_pb2 import JobGraph as JobGraphMessage
from tidegate.wire.convert import graph_from_pb

AT_ONCE = 2
"""How many programs run at once. Chosen, not measured: each is a process with an interpreter of its own."""
WAITING = 16
"""How many programs may wait; more are refused. Chosen, not measured."""
KEPT_BYTES = 64 * 1024
"""How many of the last bytes of a program's output are kept: a traceback is shorter."""
_SUBMITTED, _GRAPH = ".tidegate-submitted", ".tidegate-graph"
"""Files next to the job file, into which the client writes the job id or the graph."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A client's options for a run. ``None``: as configured."""

    entry: str | None = None
    arguments: tuple[str, ...] = ()
    parallelism: int | None = None
    job_id: JobId | None = None
    restore_path: str | None = None
    allow_non_restored_state: bool = False
    claim_mode: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


class Disk(Protocol):
    """Runs blocking calls in threads: ``tidegate.aio.pool.Pool``."""

    def submit(self, call: Callable[[], T]) -> Awaitable[T]: ...


class ProgramRuns:
    """Runs uploaded programs.

    ``address``: of the JobManager's gRPC service, set when that listens. ``token``: with which programs authenticate to submit
    their jobs; empty when there are no users.
    """

    def __init__(
        self, files: ProgramFiles, pool: Disk, timeout_ms: int, temporary: str, ways: Mapping[str, str] = {}
    ) -> None:
        """Creates it without running programs. ``ways``: the options by which a program's client reaches the JobManager."""
        self.files = files
        self._ways = dict(ways)
        self.address = self.token = ""
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._temporary = temporary
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._requested = 0
        self._running: set[int] = set()

    @classmethod
    def of(cls, configuration: Configuration, pool: Pool, working: Path) -> ProgramRuns | None:
        """Creates it as configured, with temporary files in ``working``; ``None`` when uploads are disabled. Raises ``StorageError``."""
        option = configuration.get
        if not option(WebOptions.SUBMIT_ENABLE):
            return None
        temporary = str(working)
        files = ProgramFiles(option(WebOptions.UPLOAD_DIR), temporary, option(WebOptions.MAX_UPLOAD))
        return cls(files, pool, option(WebOptions.SUBMIT_TIMEOUT), temporary, ways_of(configuration))

    async def submit(self, program: Program, request: RunRequest) -> JobId:
        """Runs a program; returns the job that it submitted. Raises the ``TidegateError`` that says why it did not."""
        options = ["--detached", f"--jobmanager={self.address}"]
        if request.restore_path:
            options.append(f"--from-savepoint={request.restore_path}")
        if request.allow_non_restored_state:
            options.append("--allow-non-restored-state")
        if request.claim_mode is not None:
            options.append(f"--claim-mode={request.claim_mode.lower().replace('_', '-')}")
        if request.job_id is not None:
            options.append(f"--job-id={request.job_id}")

        async def run(script: Path) -> JobId:
            target = script.parent / _SUBMITTED
            await self._client("run", [*options, f"--submitted-file={target}"], script, request)
            lines = (await self._pool.submit(target.read_text)).split()
            return JobId(lines[-1])

        return await self._with_files(program, request, run)

    async def plan(self, program: Program, request: RunRequest) -> JobGraph:
        """Runs a program up to its job; returns the job graph that it would submit. Raises ``TidegateError``."""

        async def run(script: Path) -> JobGraph:
            target = script.parent / _GRAPH
            await self._client("info", [f"--graph-file={target}"], script, request)
            return graph_from_pb(JobGraphMessage.FromString(await self._pool.submit(target.read_bytes)))

        return await self._with_files(program, request, run)

    def on_disk(self, call: Callable[[], T]) -> Awaitable[T]:
        """Runs a blocking call in a thread."""
        return self._pool.submit(call)

    def close(self) -> None:
        """Kills running programs and closes the files."""
        for pid in list(self._running):
            _kill(pid)
        self.files.close()

    # ---- steps -------------------------------------------------------------------------------------------------------

    async def _with_files(self, program: Program, request: RunRequest, run: Callable[[Path], Awaitable[T]]) -> T:
        if self._requested >= AT_ONCE + WAITING:
            raise NoResourceAvailable(f"{self._requested} programs are running or waiting already; try again later")
        self._requested += 1
        try:
            async with self._turn:
                folder = Path(await self._pool.submit(partial(tempfile.mkdtemp, "", "run-", self._temporary)))
                try:
                    return await run(
                        await self._pool.submit(partial(self.files.unpack, program, request.entry, folder))
                    )
                except OSError as error:
                    raise ExternalError(f"cannot run {program.name}: {error.strerror or error}") from None
                finally:
                    await self._pool.submit(partial(shutil.rmtree, folder, ignore_errors=True))
        finally:
            self._requested -= 1

    async def _client(self, command: str, options: list[str], script: Path, request: RunRequest) -> None:
        """Runs the client to its end. Raises its error message when it failed."""
        common = [] if request.parallelism is None else [f"--parallelism={request.parallelism}"]
        definitions = [f"{key}={value}" for key, value in {**request.settings, **self._ways}.items()]
        if self.token:
            definitions.append(f"{SecurityOptions.TOKEN.key}={self.token}")
        process = await asyncio.create_subprocess_exec(
            *dying_with_this(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "tidegate.cli.main",
                    command,
                    *options,
                    *common,
                    str(script),
                    *request.arguments,
                ]
            ),
            cwd=script.parent,
            env={**os.environ, **handing_over(definitions)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        self._running.add(process.pid)
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                reading = asyncio.gather(_end_of(process.stdout), _end_of(process.stderr))
                await process.wait()
                _kill(process.pid)  # its descendants too, otherwise the pipes stay open
                _, errors = await reading
        except TimeoutError:
            raise ExternalError(
                f"{script.name} did not submit a job within {self._timeout_ms} ms and was ended "
                "(tidegate.web.submit-timeout)"
            ) from None
        finally:
            _kill(process.pid)
            self._running.discard(process.pid)
            await process.wait()
        if process.returncode != 0:
            raise _failure(script.name, process.returncode, errors)


def _failure(name: str, code: int | None, errors: str) -> TidegateError:
    text = errors.strip()
    if code is not None and code < 0:
        return ExternalError(f"{name}: its process was ended by signal {-code}. {text}")
    return Misuse(text.removeprefix("error: ") or f"{name} ended with exit code {code} and said nothing")


async def _end_of(stream: asyncio.StreamReader) -> str:
    """Reads a stream to its end; returns its last ``KEPT_BYTES``."""
    kept = b""
    while chunk := await stream.read(KEPT_BYTES):
        kept = (kept + chunk)[-KEPT_BYTES:]
    return kept.decode("utf-8", "replace")


def _kill(pid: int) -> None:
    """Kills a process's whole session, which it was started with."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
