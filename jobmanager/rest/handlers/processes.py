"""Paths about processes: log files, standard output and threads of the JobManager and of TaskManagers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar
from urllib.parse import quote

from tidegate.aio import inspection
from tidegate.aio.inspection import LogFile, ThreadInfo
from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.handlers.flame_graphs import StackSampler
from tidegate.jobmanager.rest.http.errors import RestError, not_found
from tidegate.jobmanager.rest.http.request import RestRequest
from tidegate.jobmanager.rest.responses import processes as process
from tidegate.jobmanager.rest.routes import Reply, Route, reads, reads_text
from tidegate.model.errors import StorageError, TidegateError
from tidegate.model.values import JsonObject

T = TypeVar("T")


class TaskManagerInspector(StackSampler, Protocol):
    """Reads logs and threads of TaskManagers; implemented by ``tidegate.jobmanager.service.task_managers.inspection.Inspector``."""

    async def logs(self, address: str) -> Sequence[LogFile]: ...
    async def read_log(self, address: str, name: str) -> bytes: ...
    async def read_own_log(self, address: str) -> bytes: ...
    async def read_stdout(self, address: str) -> bytes: ...
    async def threads(self, address: str) -> Sequence[ThreadInfo]: ...


class ProcessHandlers:
    """Answers the paths about processes: logs, thread dumps and metrics of the JobManager and of TaskManagers."""

    def __init__(self, backend: Backend, inspector: TaskManagerInspector) -> None:
        self._backend = backend
        self._inspector = inspector

    def routes(self) -> list[Route]:
        tm = "/taskmanagers/:taskmanagerid"
        inspector = self._inspector
        return [
            reads_text("/jobmanager/log", lambda _: _own(inspection.read_own_log)),
            reads_text("/jobmanager/stdout", lambda _: _own(inspection.read_stdout)),
            reads("/jobmanager/logs", lambda _: process.log_list(inspection.log_files())),
            reads_text("/jobmanager/logs/:filename", self._own_file),
            reads("/jobmanager/thread-dump", lambda _: process.thread_list(inspection.thread_dump())),
            reads_text(f"{tm}/log", lambda request: self._text(request, inspector.read_own_log)),
            reads_text(f"{tm}/stdout", lambda request: self._text(request, inspector.read_stdout)),
            reads(f"{tm}/logs", self._logs),
            reads_text(f"{tm}/logs/:filename", self._file),
            reads(f"{tm}/thread-dump", self._threads),
            reads("/jobs/:jobid/taskmanagers/:taskmanagerid/log-url", self._log_url),
        ]

    def _own_file(self, request: RestRequest) -> Reply:
        name = request.parameters["filename"]
        return _own(lambda: inspection.read_log(name))

    async def _text(self, request: RestRequest, read: Callable[[str], Awaitable[bytes]]) -> Reply:
        return Reply(await _answered(read(self._address(request))))

    async def _file(self, request: RestRequest) -> Reply:
        name = request.parameters["filename"]
        return await self._text(request, lambda address: self._inspector.read_log(address, name))

    async def _logs(self, request: RestRequest) -> JsonObject:
        return process.log_list(await _answered(self._inspector.logs(self._address(request))))

    async def _threads(self, request: RestRequest) -> JsonObject:
        return process.thread_list(
            await _answered(self._inspector.threads(self._backend.task_manager(request).address))
        )

    def _log_url(self, request: RestRequest) -> JsonObject:
        """Answers the URL of a TaskManager's log for any id (``GeneratedLogUrlHandler.java``)."""
        return {"url": f"{request.base_url}/taskmanagers/{quote(request.parameters['taskmanagerid'])}/log"}

    def _address(self, request: RestRequest) -> str:
        """Returns the address of the TaskManager whose files are requested; an unknown one is 404 here, and 500
        elsewhere, as in Flink."""
        try:
            return self._backend.task_manager(request).address
        except RestError:
            raise not_found(f"Could not find TaskExecutor {request.parameters['taskmanagerid']}.") from None


def _own(read: Callable[[], bytes]) -> Reply:
    try:
        return Reply(read())
    except StorageError as error:
        raise not_found(error.message) from None


async def _answered(answer: Awaitable[T]) -> T:
    """Maps a missing file to 404, and a TaskManager that does not answer to 503."""
    try:
        return await answer
    except StorageError as error:
        raise not_found(error.message) from None
    except TidegateError as error:
        raise RestError(503, f"The TaskManager did not answer: {error.message}") from None
