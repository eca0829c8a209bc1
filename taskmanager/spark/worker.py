"""Runs one subtask attempt in a Spark worker process, from its start to its end.

    dial the TaskManager, Hello ─▶ Deploy ─▶ bound the memory ─▶ fetch the job's files and program
        ─▶ run the subtask (``tidegate.taskmanager.runtime``) ─▶ last word ─▶ the TaskManager hangs up ─▶ the process ends

Laws: a partition that Spark repeats does nothing (``TaskContext.attemptNumber``). No rows are yielded to Spark, except stored blocks of a BATCH job: rows leave
through the exchange and the connectors.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from setproctitle import setproctitle

from tidegate.aio.async_calls import AsyncCalls
from tidegate.aio.ownership import OwnedDirectory, make_owned, share, sweep
from tidegate.model.configuration import Configuration
from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import ErrorInfo, InternalError, SubtaskLost, TidegateError
from tidegate.model.masking import SECRETS
from tidegate.model.options import PythonOptions
from tidegate.model.states import ExecutionState
from tidegate.security.handshakes import parse_pins
from tidegate.security.sockets import TlsFiles
from tidegate.taskmanager.exchange.addresses import listen_at
from tidegate.taskmanager.exchange.blocking.store import NOT_AGAIN, StoredExchange
from tidegate.taskmanager.exchange.io_loop import IoLoop
from tidegate.taskmanager.runtime.environment import RuntimeSettings, SubtaskEnvironment
from tidegate.taskmanager.runtime.launch import SubtaskRun
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.ports import CancelTask, Mail
from tidegate.taskmanager.runtime.subtask_faults import SubtaskFaults
from tidegate.taskmanager.spark.control_stream import ControlStream
from tidegate.taskmanager.spark.dependencies import check_interpreter
from tidegate.taskmanager.spark.entry import SubtaskEntry
from tidegate.taskmanager.spark.interruption import NOT_REACTING, Interrupter
from tidegate.taskmanager.spark.memory.limits import (
    WorkerSettings,
    cancellation_interval_s,
    end_before_others,
    limit_exchange,
    limit_memory,
    unshared_bytes,
)
from tidegate.taskmanager.spark.memory.machine import TITLE, total_bytes
from tidegate.taskmanager.spark.memory.watching import watch_own_memory
from tidegate.taskmanager.spark.process import PrintedLines, kill_executor, log_with_time_and_level, step_back
from tidegate.taskmanager.spark.recording import open_failures
from tidegate.taskmanager.spark.stacks import write_on_signal
from tidegate.taskmanager.spark.user_code import load_program, place_files

if TYPE_CHECKING:
    import pyarrow as pa

SWITCH_INTERVAL_S = 0.001
"""Longest time in seconds for which a thread that sends or writes waits until the mailbox's thread releases the interpreter (Python's default: 5 ms)."""


def make_ready() -> None:
    """Prepares what is the same for all attempts, in the daemon before it forks."""
    Configuration.from_strings({})
    total_bytes()


def subtask_main(entry: SubtaskEntry, index: int, spark_rows: Iterator[pa.RecordBatch] | None = None) -> None:
    """Runs the attempt of ``entry``. Returns when its TaskManager knows its final state, or is gone."""
    for _ in run_attempt(entry, index, spark_rows, None):
        raise AssertionError("a pipelined subtask stored output for later consumers")


def run_attempt(
    entry: SubtaskEntry, index: int | None, spark_rows: Iterator[pa.RecordBatch] | None, stored: StoredExchange | None
) -> Iterator[tuple[int, bytes]]:
    """Runs an attempt and yields the blocks that it stores, each with the number of its partition.

    Output of an unfinished attempt is dropped: with ``stored``, raises ``SubtaskLost`` after its final state was reported. ``index``: of the partition, if it
    is that of the subtask.
    """
    if _is_run_again(entry, stored):
        return
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    settings = WorkerSettings.from_texts(entry.settings)
    if settings.directory:
        write_on_signal(Path(settings.directory))
    mailbox = Mailbox()
    interrupter = Interrupter(mailbox, lambda stack: _tell_where_it_stands(stream, stack))

    def deliver(mail: Mail) -> None:
        mailbox.put(mail)
        if isinstance(mail, CancelTask):
            interrupter.begin()

    owned = _own_directory(settings)
    try:
        tls = _tls(settings, owned.directory)
        stream = ControlStream(entry, deliver, tls)
        deployment = _attached(stream, f"{entry.attempt} {NOT_AGAIN}" if stored is not None else "")
    except BaseException:
        owned.remove()
        raise
    SECRETS.learn(deployment.configuration)
    interrupter.interval_s = cancellation_interval_s(deployment.configuration, settings)
    assert index in (None, deployment.attempt.subtask), (deployment.attempt, index)
    setproctitle(f"{TITLE} {_name(deployment)} of {deployment.job_name}")
    printed = [_printed_lines(stream, is_error) for is_error in (False, True)]
    sys.stdout, sys.stderr = printed
    log_with_time_and_level()

    def finish() -> None:
        interrupter.end()
        _finish(printed)

    stream.before_final_state = finish
    _watch_memory(settings, deployment, partial(_fail, stream, owned, printed))
    has_finished = False
    try:
        environment = _environment(deployment, stream, settings, owned.directory, tls)
        environment = replace(environment, spark_rows=spark_rows, stored=stored)
        has_finished = yield from _run(
            limit_exchange(deployment, settings), stream, mailbox, environment, settings.failures_dir
        )
    except BaseException as error:  # noqa: BLE001  (the driver of this process: whatever it is, the TaskManager learns of it)
        if not stream.has_ended:
            stream.state_changed(ExecutionState.FAILED, _error_info(error, deployment))
    finally:
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        stream.close()
        owned.remove()
    if stored is not None and not has_finished:
        raise SubtaskLost(f"{_name(deployment)} did not finish: its stored output is dropped")


def _tell_where_it_stands(stream: ControlStream, stack: str) -> None:
    stream.interrupted(stack)
    stream.print(f"{NOT_REACTING}\n{stack}\n", is_error=True)


def _watch_memory(settings: WorkerSettings, deployment: TaskDeployment, fail: Callable[[ErrorInfo], None]) -> None:
    if not settings.directory:  # else its TaskManager looks
        is_of_group = deployment.slot_resources is not None
        watch_own_memory(settings, _name(deployment), is_of_group=is_of_group, fail=fail)


def _finish(printed: list[PrintedLines]) -> None:
    for lines in printed:
        lines.finish()


def _fail(stream: ControlStream, owned: OwnedDirectory, printed: list[PrintedLines], error: ErrorInfo) -> None:
    """Reports the failure and ends the process, from another thread while the subtask's own goes on."""
    if not stream.has_ended:
        stream.before_final_state = partial(_finish, printed)  # signals are the main thread's
        stream.state_changed(ExecutionState.FAILED, error)
        stream.close()
        owned.remove()
        os._exit(1)


def _is_run_again(entry: SubtaskEntry, stored: StoredExchange | None) -> bool:
    """Tells whether Spark runs the partition again. Raises ``SubtaskLost`` for an attempt that stores, whose empty output would count as complete."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None or context.attemptNumber() == 0:
        return False
    if stored is not None:
        raise SubtaskLost(f"{entry.attempt} {NOT_AGAIN}")
    return True


def _run(
    deployment: TaskDeployment,
    stream: ControlStream,
    mailbox: Mailbox,
    environment: SubtaskEnvironment,
    failures_dir: str,
) -> Generator[tuple[int, bytes], None, bool]:
    """Runs the subtask and yields the blocks that it stores; returns whether it has finished."""
    content = stream.fetch_blob(deployment.program)
    failures = open_failures(
        deployment,
        content,
        stream.fetch_blob,
        Path(environment.temp_dir),
        failures_dir,
        is_stored=environment.stored is not None,
    )
    if failures is not None:
        environment = replace(environment, failures=failures)
    program = load_program(content, deployment.task_name)
    run = SubtaskRun(deployment, program, mailbox, stream, environment)
    for _ in run.pauses():
        if environment.stored is not None:
            yield from environment.stored.take()
    return run.outcome is ExecutionState.FINISHED


def _attached(stream: ControlStream, otherwise: str) -> TaskDeployment:
    """Connects to the TaskManager and returns the deployment. Raises the TaskManager's refusal; ``SubtaskLost`` with the message ``otherwise``, if given, for
    an ``InternalError``.
    """
    try:
        return stream.attach()
    except InternalError as refusal:
        if otherwise:
            raise SubtaskLost(f"{otherwise} ({refusal.message})") from refusal
        raise


def _own_directory(settings: WorkerSettings) -> OwnedDirectory:
    """Makes the directory of this process: in the TaskManager's working directory, which this process shares until it ends; on another machine in the temporary
    directory, after removing those of killed subtasks.
    """
    if settings.directory:
        share(Path(settings.directory).parent.parent)
        return make_owned("subtask-", Path(settings.directory))
    temporary = Path(tempfile.gettempdir())
    sweep(temporary, ["tidegate-subtask-"])
    return make_owned("tidegate-subtask-", temporary)


def _printed_lines(stream: ControlStream, is_error: bool) -> PrintedLines:
    bare = PrintedLines(partial(stream.print, is_error=is_error, is_bare=True))
    return PrintedLines(partial(stream.print, is_error=is_error), bare)


def _tls(settings: WorkerSettings, directory: Path) -> TlsFiles | None:
    """Returns the TLS key and certificates of this process for TCP; ``None`` if its connections use no TLS. ``directory``: where received ones are written."""
    pins = parse_pins(settings.tls_pins)
    if settings.tls_directory:
        return TlsFiles(Path(settings.tls_directory), pins)
    return (
        TlsFiles(directory, pins).write(settings.tls_identity, settings.tls_trusted) if settings.tls_identity else None
    )


def _environment(
    deployment: TaskDeployment, stream: ControlStream, settings: WorkerSettings, directory: Path, tls: TlsFiles | None
) -> SubtaskEnvironment:
    """Limits the memory of this process, installs the job's files, and returns the subtask's environment, before user code is loaded."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(4)
    limit_memory(settings.slot_memory_bytes, total_bytes())
    end_before_others()
    check_interpreter(deployment.configuration.get(PythonOptions.EXECUTABLE.key))
    place_files(deployment.blobs, directory / "files", stream.fetch_blob, _requirements(settings, directory))
    environment = SubtaskEnvironment(
        listen=listen_at(settings.listen, stream.own_host),
        temp_dir=str(directory),
        local_state_dir=settings.local_state_dir,
        managed_memory_bytes=settings.managed_memory_bytes,
        spark_service=settings.spark_service,
        open_async_calls=AsyncCalls,
        step_back=step_back,
        resident_bytes=None if unshared_bytes() is None else lambda: float(unshared_bytes() or 0),
        align_watermark=stream.align_watermark,
        register_kv_state=stream.register_kv_state,
        external_resources={**json.loads(settings.external_resources), **_resources_of_spark()},
    )
    if tls is not None:
        environment = replace(environment, tls=tls, open_io=partial(IoLoop, tls=tls))
    allows = RuntimeSettings.allows_faults(deployment.configuration)
    return _with_faults(deployment, stream, environment) if allows else environment


def _with_faults(
    deployment: TaskDeployment, stream: ControlStream, environment: SubtaskEnvironment
) -> SubtaskEnvironment:
    """Returns the environment with a clock and a state store into which faults can be injected."""
    settings = RuntimeSettings.of(deployment.configuration)
    faults = SubtaskFaults(environment.clock, time.sleep, kill_executor)  # a slow store is a wait, in its thread
    stream.take_fault = faults.take
    store = faults.around(environment.open_store or settings.open_store, settings.inline_threshold_bytes)
    return replace(environment, clock=faults.clock(), open_store=store)


def _resources_of_spark() -> dict[str, list[dict[str, str]]]:
    """Returns the resources that Spark assigned to the task, by name, each with its address, such as the index of a GPU; empty where Spark assigns none."""
    from pyspark import TaskContext

    context = TaskContext.get()
    resources = {} if context is None else context.resources()
    return {name: [{"index": each, "address": each} for each in found.addresses] for name, found in resources.items()}


def _name(deployment: TaskDeployment) -> str:
    attempt = deployment.attempt
    return f"{deployment.task_name} ({attempt.subtask + 1}/{deployment.parallelism})#{attempt.attempt}"


def _requirements(settings: WorkerSettings, directory: Path) -> Path:
    """Returns the directory in which the TaskManager's subtasks share installed requirements; on another machine, one of this process."""
    return (Path(settings.directory).parent if settings.directory else directory) / "requirements"


def _error_info(error: BaseException, deployment: TaskDeployment) -> ErrorInfo:
    origin = _name(deployment)
    info = ErrorInfo.of(error, origin)
    if isinstance(error, TidegateError) and info.details:
        return info
    details = "".join(traceback.format_exception(error))
    return replace(info, details=details)
