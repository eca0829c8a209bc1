"""Executors, which run the job graph when a program calls ``env.execute()``.

tidegate run job.py     the CLI installs an executor that submits to its cluster, then runs the script
tidegate info job.py    the CLI installs a PlanRecorder
python job.py           nothing is installed: ``tidegate.cli.embedded.local:LocalClusterExecutor``, an embedded cluster in this process

with installed(executor, {"parallelism.default": "2"}):
    runpy.run_path("job.py", run_name="__main__")
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidegate.common.job_client import JobControl
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey

LOCAL_EXECUTOR = "tidegate.cli.embedded.local:LocalClusterExecutor"
"""The default executor, ``module:class``, imported by name since this package must not import the CLI."""

PREPARING = "Preparing the job ..."
"""The first line of `python job.py`: imports and building the job graph take seconds on a busy machine."""


class Executor(Protocol):
    """Runs job graphs. ``blobs`` has the content of every blob that the graph names."""

    def execute(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobExecutionResult:
        """Runs the job to its end. Raises its error when it does not finish."""

    def execute_async(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobControl:
        """Submits the job; returns when it is accepted."""


@dataclass(frozen=True)
class ExecutionContext:
    """The executor and configuration for ``execute``. The program's own settings override ``configuration``."""

    executor: Executor | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)


_context: ContextVar[ExecutionContext] = ContextVar("tidegate_execution_context", default=ExecutionContext())  # noqa: B039


@contextmanager
def installed(executor: Executor, configuration: Mapping[str, str] | None = None) -> Iterator[None]:
    """Executes programs in the block by ``executor``, with ``configuration`` (from ``-D``, ``-p``) as defaults."""
    token = _context.set(ExecutionContext(executor, dict(configuration or {})))
    try:
        yield
    finally:
        _context.reset(token)


def configuration_below(local_parallelism: int | None = None) -> dict[str, str]:
    """Returns the defaults below the program's own settings. An embedded cluster has one subtask for each CPU, as Flink's does, or ``local_parallelism``."""
    context = _context.get()
    if context.executor is not None:
        return dict(context.configuration)
    return {"parallelism.default": str(local_parallelism or os.cpu_count() or 1), **context.configuration}


def current_executor() -> Executor:
    """Returns the installed executor, or a new embedded one."""
    context = _context.get()
    if context.executor is not None:
        return context.executor
    if LOCAL_EXECUTOR.partition(":")[0] not in sys.modules:
        sys.stderr.write(f"{PREPARING}\n")
    try:
        kind: Callable[[], Executor] = own_object(LOCAL_EXECUTOR)
    except (ImportError, AttributeError) as error:
        raise InvalidJob(f"no embedded cluster to run the job in ({error}): submit it with `tidegate run`") from error
    return kind()


def own_object(place: str) -> Any:
    """Imports ``module:name`` of this installation, which the DSL must not import statically."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


class PlanRecorded(BaseException):
    """Ends a program whose plan alone was wanted. Not an ``Exception``, so that programs do not catch it by accident."""


class PlanRecorder:
    """An executor that records the first graph and ends the program."""

    def __init__(self) -> None:
        self.graph: JobGraph | None = None
        self.blobs: Mapping[BlobKey, bytes] = {}

    def execute(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobExecutionResult:
        """Keeps the graph and its blobs, and raises ``PlanRecorded``."""
        self.graph, self.blobs = graph, blobs
        raise PlanRecorded

    def execute_async(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobControl:
        """Keeps the graph and its blobs, and raises ``PlanRecorded``."""
        self.graph, self.blobs = graph, blobs
        raise PlanRecorded
