"""Runs one subtask attempt from its deployment to the report of its final state.

    listen ─▶ INITIALIZING ─▶ make, restore and open operators ─▶ wait for the producers ─▶ RUNNING ─▶ loop ─▶ close ─▶ last word

Laws: the final state (FINISHED, CANCELED or FAILED) is sent after everything was closed. A subtask whose control stream broke sends, commits and acknowledges
nothing after that. Everything that was opened is closed in every case.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import DeclineReason
from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import ErrorInfo, SubtaskLost, UserError
from tidegate.model.ids import AttemptId
from tidegate.model.options import ShownRecord
from tidegate.model.program import VertexProgram
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.exchange.blocking.endpoint import BlockingEndpoint
from tidegate.taskmanager.exchange.endpoint import DataEndpoint
from tidegate.taskmanager.machines import subtask as lifecycle
from tidegate.taskmanager.runtime.construction import SubtaskBuilder, origin_of
from tidegate.taskmanager.runtime.environment import RuntimeSettings, SubtaskEnvironment
from tidegate.taskmanager.runtime.failures import failure_info
from tidegate.taskmanager.runtime.mailbox import AT_ONCE, UNTIL_WOKEN, Mailbox, Steps
from tidegate.taskmanager.runtime.measuring.profiler import Profiler
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters
from tidegate.taskmanager.runtime.ports import (
    CallMail,
    CancelTask,
    ConnectInputs,
    ControlLost,
    ControlPort,
    Mail,
    QueryState,
    TaskEventArrived,
)
from tidegate.taskmanager.runtime.recorded import keep_failure
from tidegate.taskmanager.runtime.result_listener import open_listener
from tidegate.taskmanager.state.files.local_copies import open_copies
from tidegate.wire.task_metrics import RESIDENT_MEMORY
from tidegate.wire.user_events import adopt_user_events

PEER_LOSS_GRACE_MS = 300.0
"""Milliseconds for which a subtask that lost a producer waits to be canceled before it fails itself."""

_LAST_WORDS = {
    lifecycle.LifecycleState.FINISHED: ExecutionState.FINISHED,
    lifecycle.LifecycleState.CANCELED: ExecutionState.CANCELED,
    lifecycle.LifecycleState.FAILED: ExecutionState.FAILED,
    lifecycle.LifecycleState.CUT_OFF: ExecutionState.FAILED,
}


class SubtaskRun:
    """Runs one attempt, step by step. Steps raise nothing for failures of the job or its environment: those are reported as FAILED."""

    def __init__(
        self,
        deployment: TaskDeployment,
        program: VertexProgram,
        mailbox: Mailbox,
        port: ControlPort,
        environment: SubtaskEnvironment,
    ) -> None:
        self.outcome = ExecutionState.FAILED
        """The final state, once ``steps`` has ended. It is FAILED when the control stream broke, although that could not be reported."""
        self._deployment = deployment
        self._program = program
        self._mailbox = mailbox
        self._port = port
        self._environment = environment
        self._clock = environment.clock
        self._counters = TaskCounters()
        self._lifecycle: lifecycle.SubtaskLifecycle = lifecycle.SubtaskLifecycle(
            checkpointing=True, has_inputs=bool(deployment.inputs)
        )
        self._connected: set[AttemptId] = set()
        self._early: list[TaskEventArrived | QueryState] = []
        """Events of consumers and queries of clients that came before the subtask runs."""
        self._closing_errors: list[BaseException] = []
        self._shown_record = ShownRecord.NONE

    def pauses(self) -> Iterator[None]:
        """Runs the attempt in the calling thread. Yields after each step, so that the caller may take what was stored; waits for mails when there is nothing to
        do.
        """
        for patience_ms in self.steps():
            yield
            if patience_ms > AT_ONCE:
                self._mailbox.wait(None if patience_ms == UNTIL_WOKEN else patience_ms)

    def steps(self) -> Steps:
        """Runs the attempt from the deployment to the report of its final state."""
        error: ErrorInfo | None = None
        try:
            with ExitStack() as resources:
                yield from self._run(resources)
        except GeneratorExit:  # whoever drives these steps gives them up
            raise
        except BaseException as raised:  # noqa: BLE001  driver: an attempt fails, its process does not
            if isinstance(raised, SubtaskLost):
                yield from self._await_verdict()
            error = self._failed(raised)
        if error is None and self._closing_errors and self._lifecycle.state is lifecycle.LifecycleState.FINISHED:
            error = failure_info(self._closing_errors[0], self._origin, self._shown_record)
            self._lifecycle.on(lifecycle.ClosingFailed(), self._clock.now_ms())
        self.outcome = self._final_state(error)

    def _run(self, resources: ExitStack) -> Steps:
        deployment, began_ms = self._deployment, self._clock.monotonic_ms()
        adopt_user_events(self._program.events)
        settings = RuntimeSettings.of(deployment.configuration)
        self._shown_record = settings.shown_record
        self._lifecycle = settings.make_lifecycle(has_inputs=bool(deployment.inputs))
        build = self._builder(settings, resources)
        endpoint = build.make_endpoint()
        partitions = build.add_outputs(endpoint)
        gate = endpoint.add_inputs(deployment.inputs) if deployment.inputs else None
        host = settings.exchange.advertised_host
        listener, address = open_listener(self._program, deployment, self._environment, host, resources)
        self._port.listening(endpoint.start() or address)
        build.probe("listening", {})
        self._on_lifecycle(lifecycle.InitializationStarted())
        build.copies = open_copies(self._environment.local_state_dir, deployment)
        services = build.make_services(endpoint)
        if build.recorder is not None:
            resources.callback(build.recorder.close)
            build.recorder.begin(build.restored_id, self._clock.now_ms(), lambda: self._counters.records_out)
        assembled = build.initialize(partitions, listener, services, endpoint)
        loop = build.make_loop(services, assembled, partitions, gate)
        build.probe("initialized", {})
        yield from self._await_inputs(endpoint)
        if self._lifecycle.is_over:
            return
        initialized_ms = self._clock.monotonic_ms() - began_ms
        self._counters.gauges["initializationTime"] = lambda: initialized_ms
        self._counters.gauges["isBackPressured"] = lambda: loop.is_congested
        if self._environment.resident_bytes is not None:
            self._counters.gauges[RESIDENT_MEMORY] = self._environment.resident_bytes
        self._on_lifecycle(lifecycle.Initialized())
        if gate is None and partitions:
            self._environment.step_back(settings.source_nice)
        if settings.profile:
            profiler = Profiler(threading.get_ident(), self._counters, lambda: loop.is_congested)
            resources.callback(profiler.close)
            profiler.start()
        for event in self._early:
            loop.handle(event)
        if build.recorder is None:
            yield from loop.steps()
        else:
            yield from self._keeping_failures(loop.steps())

    def _keeping_failures(self, steps: Steps) -> Steps:
        """Keeps a failure of user code for a replay, before operators are closed."""
        try:
            yield from steps
        except UserError as raised:
            keep_failure(self._environment, raised, failure_info(raised, self._origin, self._shown_record))
            raise

    def _builder(self, settings: RuntimeSettings, resources: ExitStack) -> SubtaskBuilder:
        return SubtaskBuilder(
            deployment=self._deployment,
            program=self._program,
            mailbox=self._mailbox,
            port=self._port,
            environment=self._environment,
            settings=settings,
            subtask=self._lifecycle,
            on_lifecycle=self._on_lifecycle,
            counters=self._counters,
            resources=resources,
            closing_errors=self._closing_errors,
        )

    def _await_inputs(self, endpoint: DataEndpoint | BlockingEndpoint) -> Steps:
        while not self._lifecycle.is_over and not endpoint.all_connected():
            mails = self._mailbox.take_all()
            for mail in mails:
                self._handle_early(mail, endpoint)
            if not mails:
                yield UNTIL_WOKEN

    def _handle_early(self, mail: Mail, endpoint: DataEndpoint | BlockingEndpoint) -> None:
        """Handles a mail that came before the subtask runs. Confirms and aborts are ignored, since no checkpoint was taken."""
        match mail:
            case ConnectInputs(producers):
                for producer in producers:
                    if producer.attempt not in self._connected:
                        self._connected.add(producer.attempt)
                        endpoint.connect(producer)
            case CancelTask():
                self._on_lifecycle(lifecycle.CancelRequested())
            case ControlLost():
                self._on_lifecycle(lifecycle.ControlBroken())
            case Barrier(checkpoint_id):
                reason = DeclineReason.TASK_NOT_READY
                self._port.decline(
                    checkpoint_id, reason, ErrorInfo("declined", "internal", f"{self._origin} is not running yet")
                )
            case CallMail(call):
                call()
            case TaskEventArrived() | QueryState():
                self._early.append(mail)
            case _:
                pass

    def _on_lifecycle(self, event: lifecycle.LifecycleEvent) -> None:
        """Takes a lifecycle event before the loop runs: the only commands are reports of states."""
        for command in self._lifecycle.on(event, self._clock.now_ms()):
            if isinstance(command, lifecycle.ReportState):
                self._port.state_changed(command.state)

    def _failed(self, raised: BaseException) -> ErrorInfo | None:
        """Notes a failure. Returns the error to report; ``None`` if the attempt was canceled or cut off before, of which the failure is a consequence."""
        info = failure_info(raised, self._origin, self._shown_record)
        self._lifecycle.on(lifecycle.SubtaskFailed(info), self._clock.now_ms())
        return info if self._lifecycle.state is lifecycle.LifecycleState.FAILED else None

    def _await_verdict(self) -> Steps:
        """Waits for the JobManager to cancel this attempt, after a producer was lost.

        If that producer failed or was canceled, the JobManager is about to cancel this attempt as well, and a failure reported before that would hide the
        cause.
        """
        deadline_ms = self._clock.monotonic_ms() + PEER_LOSS_GRACE_MS
        while not self._lifecycle.is_over and (left_ms := deadline_ms - self._clock.monotonic_ms()) > 0:
            for mail in self._mailbox.take_all():
                if isinstance(mail, CancelTask):
                    self._lifecycle.on(lifecycle.CancelRequested(), self._clock.now_ms())
                elif isinstance(mail, ControlLost):
                    self._lifecycle.on(lifecycle.ControlBroken(), self._clock.now_ms())
            if not self._lifecycle.is_over:
                yield left_ms

    def _final_state(self, error: ErrorInfo | None) -> ExecutionState:
        outcome = _LAST_WORDS[self._lifecycle.state]
        if self._lifecycle.state is not lifecycle.LifecycleState.CUT_OFF:
            self._port.metrics(self._counters.report())
            self._port.state_changed(outcome, error)
        return outcome

    @property
    def _origin(self) -> str:
        return origin_of(self._deployment)
