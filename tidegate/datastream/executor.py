"""Executors: who takes the job graph when a program calls ``env.execute()``.

tidegate run job.py     the CLI installs an executor that submits to its cluster, then runs the script
tidegate info job.py    the CLI installs a PlanRecorder
python job.py           nothing is installed: ``cli.local:LocalClusterExecutor``, an embedded cluster in this process

with installed(executor, {"parallelism.default": "2"}):
    runpy.run_path("job.py", run_name="__main__")
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import tidegate
from tidegate.common.job_client import JobControl
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey

LOCAL_EXECUTOR = "cli.local:LocalClusterExecutor"
"""``module:class``, imported by name when nothing is installed: this package must not import the CLI."""


class Executor(Protocol):
    """``blobs`` holds the content of every blob that the graph names."""

    def execute(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobExecutionResult:
        """Runs the job to its end. Raises its error when it does not finish."""

    def execute_async(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobControl:
        """Returns when the job is accepted."""


@dataclass(frozen=True)
class ExecutionContext:
    """What ``execute`` finds around it. ``configuration`` lies below what the program sets itself."""

    executor: Executor | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)


_context: ContextVar[ExecutionContext] = ContextVar("tidegate_execution_context", default=ExecutionContext())  # noqa: B039


@contextmanager
def installed(executor: Executor, configuration: Mapping[str, str] | None = None) -> Iterator[None]:
    """Programs that run inside the block are executed by ``executor``, on top of ``configuration`` (from ``-D``, ``-p``)."""
    token = _context.set(ExecutionContext(executor, dict(configuration or {})))
    try:
        yield
    finally:
        _context.reset(token)


def configuration_below(local_parallelism: int | None = None) -> dict[str, str]:
    """What the program's own settings lie on. An embedded cluster starts with one subtask for each CPU, as Flink's does, or
    with ``local_parallelism``."""
    context = _context.get()
    if context.executor is not None:
        return dict(context.configuration)
    return {"parallelism.default": str(local_parallelism or os.cpu_count() or 1), **context.configuration}


def current_executor() -> Executor:
    """The installed executor, or a new embedded one."""
    context = _context.get()
    if context.executor is not None:
        return context.executor
    try:
        kind: Callable[[], Executor] = own_object(LOCAL_EXECUTOR)
    except (ImportError, AttributeError) as error:
        raise InvalidJob(f"no embedded cluster to run the job in ({error}): submit it with `tidegate run`") from error
    return kind()


@functools.cache
def own_object(place: str) -> Any:
    """``module:name`` of this installation, also beside a program that has a ``cli`` of its own: what the program
    imported, or will import, under that name stays its own."""
    module, _, name = place.partition(":")
    top, home = module.partition(".")[0], str(Path(tidegate.__file__).resolve().parent.parent)
    if _is_found_in(top, home):
        return getattr(importlib.import_module(module), name)
    theirs = _pop_modules(top)
    sys.path.insert(0, home)
    try:
        return getattr(importlib.import_module(module), name)
    finally:
        sys.path.remove(home)
        _pop_modules(top)
        sys.modules.update(theirs)


def _is_found_in(top: str, home: str) -> bool:
    """Whether a plain import of the package would give ours."""
    spec = importlib.util.find_spec(top)
    return spec is not None and str(Path(spec.origin or "").resolve().parent.parent) == home


def _pop_modules(top: str) -> dict[str, ModuleType]:
    found = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == top}
    for name in found:
        del sys.modules[name]
    return found


class PlanRecorded(BaseException):
    """Ends a program whose plan was all that was wanted. No ``Exception``: a program must not catch it by accident."""


class PlanRecorder:
    """An executor that keeps the first graph and ends the program."""

    def __init__(self) -> None:
        self.graph: JobGraph | None = None
        self.blobs: Mapping[BlobKey, bytes] = {}

    def execute(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobExecutionResult:
        self.graph, self.blobs = graph, blobs
        raise PlanRecorded

    def execute_async(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobControl:
        self.graph, self.blobs = graph, blobs
        raise PlanRecorded
