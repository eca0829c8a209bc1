"""Runs one subtask attempt from its deployment to its last word.

    listen ─▶ INITIALIZING ─▶ make, restore and open operators ─▶ wait for the producers ─▶ RUNNING ─▶ loop ─▶ close ─▶ last word

Laws: the last word (FINISHED, CANCELED or FAILED) is told after everything was closed; a subtask whose control stream broke says
nothing more, commits nothing and acknowledges nothing. Whatever was opened is closed on every path.
"""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from typing import Any

from tidegate.model.checkpoint import DeclineReason
from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import ErrorInfo, InvalidJob, SubtaskLost
from tidegate.model.ids import AttemptId
from tidegate.model.program import VertexProgram
from tidegate.model.states import ExecutionState
from tidegate.store.segments import open_segment_source
from tidegate.taskmanager.exchange.base import InputGate
from tidegate.taskmanager.exchange.endpoint import DataEndpoint
from tidegate.taskmanager.machines import subtask as life
from tidegate.taskmanager.machines.alignment import BarrierHandler
from tidegate.taskmanager.machines.barrier_handler import ExactlyOnceBarrierHandler
from tidegate.taskmanager.machines.barrier_tracker import TrackingHandler
from tidegate.taskmanager.machines.snapshot import SnapshotCoordinator
from tidegate.taskmanager.runtime.assembly import AssembledChain, ChainParts, assemble_chain
from tidegate.taskmanager.runtime.background import BackgroundThread
from tidegate.taskmanager.runtime.checkpointing.barriers import BarrierSender, OutgoingEdge
from tidegate.taskmanager.runtime.checkpointing.input_channels import InputChannels
from tidegate.taskmanager.runtime.checkpointing.parallel_writes import SnapshotThreads
from tidegate.taskmanager.runtime.checkpointing.replay import Replay
from tidegate.taskmanager.runtime.checkpointing.snapshots import SnapshotDriver
from tidegate.taskmanager.runtime.environment import RuntimeSettings, SubtaskEnvironment
from tidegate.taskmanager.runtime.failures import failure_info
from tidegate.taskmanager.runtime.inputs.channel_input import ChannelInput, SubtaskInput
from tidegate.taskmanager.runtime.inputs.source_input import SourceInput
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.measuring.metrics import TaskCounters
from tidegate.taskmanager.runtime.measuring.profiler import Profiler
from tidegate.taskmanager.runtime.measuring.step_meter import StepMeter
from tidegate.taskmanager.runtime.outputs import KeyedPartition
from tidegate.taskmanager.runtime.ports import (
    CallMail,
    CancelTask,
    ConnectInputs,
    ControlLost,
    ControlPort,
    Mail,
    TriggerCheckpoint,
)
from tidegate.taskmanager.runtime.result_listener import open_listener
from tidegate.taskmanager.runtime.slicing import SliceSizer
from tidegate.taskmanager.runtime.subtask import SubtaskLoop
from tidegate.taskmanager.runtime.timers import TimerQueue
from tidegate.taskmanager.state.base import SegmentSource
from tidegate.taskmanager.state.files.local_copies import LocalCopies, open_copies

PEER_LOSS_GRACE_MS = 300.0
"""How long a subtask whose producer went away waits to be canceled before it calls that its own failure."""

_LAST_WORDS = {
    life.LifeState.FINISHED: ExecutionState.FINISHED,
    life.LifeState.CANCELED: ExecutionState.CANCELED,
    life.LifeState.FAILED: ExecutionState.FAILED,
    life.LifeState.CUT_OFF: ExecutionState.FAILED,
}


def run_subtask(
    deployment: TaskDeployment,
    program: VertexProgram,
    mailbox: Mailbox,
    port: ControlPort,
    environment: SubtaskEnvironment,
) -> ExecutionState:
    """The whole life of one attempt, in the calling thread. Never raises for what the job or the world did wrong: that is told
    as FAILED. Returns the state of the last word; FAILED, though untold, when the control stream broke."""
    return _SubtaskRun(deployment, program, mailbox, port, environment).run()


class _SubtaskRun:
    def __init__(
        self,
        deployment: TaskDeployment,
        program: VertexProgram,
        mailbox: Mailbox,
        port: ControlPort,
        environment: SubtaskEnvironment,
    ) -> None:
        self._deployment = deployment
        self._program = program
        self._mailbox = mailbox
        self._port = port
        self._environment = environment
        self._clock = environment.clock
        self._counters = TaskCounters()
        self._life: life.SubtaskLife = life.SubtaskLife(checkpointing=True, has_inputs=bool(deployment.inputs))
        self._connected: set[AttemptId] = set()
        self._copies: LocalCopies | None = None
        self._loop: SubtaskLoop | None = None
        self._closing_errors: list[BaseException] = []

    def run(self) -> ExecutionState:
        error: ErrorInfo | None = None
        try:
            with ExitStack() as resources:
                self._run(resources)
        except (Exception, SystemExit) as raised:  # noqa: BLE001  driver: an attempt fails, its process does not
            error = self._failed(raised)
        if error is None and self._closing_errors and self._life.state is life.LifeState.FINISHED:
            error = failure_info(self._closing_errors[0], self._origin)
            self._life.state = life.LifeState.FAILED
        return self._last_word(error)

    def _run(self, resources: ExitStack) -> None:
        deployment = self._deployment
        settings = RuntimeSettings.of(deployment.configuration)
        self._life = settings.make_life(has_inputs=bool(deployment.inputs))
        endpoint = DataEndpoint(
            attempt=deployment.attempt,
            token=deployment.data_token,
            listen=self._environment.listen,
            wakeup=self._mailbox.wake,
            settings=settings.exchange,
        )
        resources.callback(endpoint.close)
        partitions = self._add_outputs(endpoint)
        gate = endpoint.add_inputs(deployment.inputs) if deployment.inputs else None
        host = settings.exchange.advertised_host
        listener, address = open_listener(self._program, deployment, self._environment, host, resources)
        self._port.listening(endpoint.start() or address)
        self._probe("listening", {})
        self._on_life(life.InitializationStarted())
        self._copies = open_copies(self._environment.local_state_dir, deployment)
        assembled, timers = self._initialize(settings, partitions, listener, resources)
        loop = self._make_loop(settings, assembled, timers, partitions, gate, endpoint, resources)
        self._probe("initialized", {})
        self._await_inputs(endpoint)
        if self._life.is_over:
            return
        self._on_life(life.Initialized())
        self._loop = loop
        if gate is None and partitions:
            self._environment.step_back(settings.source_nice)
        if settings.profile:
            profiler = Profiler(threading.get_ident(), self._counters, lambda: loop.is_congested)
            resources.callback(profiler.close)
            profiler.start()
        loop.run()

    def _add_outputs(self, endpoint: DataEndpoint) -> dict[int, KeyedPartition]:
        specs = {spec.edge_id: spec for spec in self._program.outputs}
        partitions: dict[int, KeyedPartition] = {}
        for output in self._deployment.outputs:
            if output.edge_id not in specs:
                raise InvalidJob(f"the program of {self._origin} has no output for edge {output.edge_id}")
            partitions[output.edge_id] = endpoint.add_output(output, specs[output.edge_id])
        return partitions

    def _initialize(
        self,
        settings: RuntimeSettings,
        partitions: dict[int, KeyedPartition],
        listener: socket.socket | None,
        resources: ExitStack,
    ) -> tuple[AssembledChain, TimerQueue]:
        """Operators made, restored and open."""
        restore = self._deployment.restore
        segments: SegmentSource | None = None if restore is None else open_segment_source(restore.location)
        if segments is not None and restore is not None and self._copies is not None and settings.from_local:
            segments = self._copies.source(segments, int(restore.checkpoint_id))
        timers = TimerQueue(self._clock)
        pool = BackgroundThread("operator-work", self._mailbox)
        resources.callback(pool.close, 0.0)
        parts = ChainParts(
            deployment=self._deployment,
            environment=self._environment,
            clock=self._clock,
            timers=timers,
            counters=self._counters,
            segments=segments,
            run_async=pool.submit,
            mail=lambda call: self._mailbox.put(CallMail(call)),
            wakeup=self._mailbox.wake,
            listener=listener,
        )
        assembled = assemble_chain(self._program, partitions, parts)
        resources.callback(lambda: self._closing_errors.extend(assembled.chain.close()))
        assembled.chain.setup(assembled.contexts)
        assembled.chain.open()
        return assembled, timers

    def _make_loop(
        self,
        settings: RuntimeSettings,
        assembled: AssembledChain,
        timers: TimerQueue,
        partitions: dict[int, KeyedPartition],
        gate: InputGate | None,
        endpoint: DataEndpoint,
        resources: ExitStack,
    ) -> SubtaskLoop:
        restore = self._deployment.restore
        restored_id = 0 if restore is None else int(restore.checkpoint_id)
        outputs = list(partitions.values())
        alarms = TimerQueue(self._clock)
        snapshots = SnapshotDriver(
            attempt=self._deployment.attempt,
            coordinator=SnapshotCoordinator(restored_id=restored_id),
            chain=assembled.chain,
            barriers=BarrierSender(outputs, self._outgoing_edges()),
            alarms=alarms,
            writer=SnapshotThreads(self._mailbox),
            open_store=settings.open_store,
            inline_bytes=settings.inline_threshold_bytes,
            port=self._port,
            clock=self._clock,
            probe=self._probe,
            on_started=lambda checkpoint_id: self._on_life(life.SnapshotStarted(checkpoint_id)),
            copies=self._copies if settings.local_backup else None,
        )
        resources.callback(snapshots.close)
        return SubtaskLoop(
            subtask=self._life,
            chain=assembled.chain,
            work=self._make_input(settings, assembled, snapshots, gate, alarms),
            partitions=outputs,
            snapshots=snapshots,
            timers=timers,
            alarms=alarms,
            counters=self._counters,
            mailbox=self._mailbox,
            port=self._port,
            clock=self._clock,
            flush_ms=self._program.flush_ms(settings.flush_ms),
            probe=self._probe,
            check=endpoint.check,
        )

    def _make_input(
        self,
        settings: RuntimeSettings,
        assembled: AssembledChain,
        snapshots: SnapshotDriver,
        gate: InputGate | None,
        alarms: TimerQueue,
    ) -> SubtaskInput:
        chain = assembled.chain
        sizer = SliceSizer(
            columnar=chain.is_columnar,
            step_ms=settings.slice_ms,
            first_records=1,
            most_records=chain.slice_records,
            meter=StepMeter(),
        )
        if gate is None:
            source = chain.source
            if source is None:
                raise InvalidJob(f"{self._origin} has no inputs, and its first operator is not a source")
            output = assembled.head_output
            return SourceInput(
                source=source,
                chain=chain,
                snapshots=snapshots,
                sizer=sizer,
                counters=self._counters,
                clock=self._clock,
                emitted=lambda: output.records_emitted,
                waits_for_checkpoint=settings.sources_wait,
                rest_share=settings.source_rest if self._deployment.outputs else 0.0,
            )
        head = self._program.operators[0]
        return ChannelInput(
            gate=gate,
            input_indices=[spec.input_index for spec in self._deployment.inputs],
            chain=chain,
            handler=self._make_handler(settings, gate),
            snapshots=snapshots,
            sizer=sizer,
            counters=self._counters,
            clock=self._clock,
            probe=self._probe,
            alarms=alarms,
            channels=InputChannels.of(self._deployment, head.operator_id, head.uid or head.name),
            replay=self._make_replay(assembled),
        )

    def _make_handler(self, settings: RuntimeSettings, gate: InputGate) -> BarrierHandler:
        restore = self._deployment.restore
        kind = ExactlyOnceBarrierHandler if settings.exactly_once else TrackingHandler
        return kind(
            range(gate.channels),
            last_id=0 if restore is None else int(restore.checkpoint_id),
            checkpoints_after_tasks_finish=settings.checkpoints_after_tasks_finish,
        )

    def _make_replay(self, assembled: AssembledChain) -> Replay | None:
        """Of the data that was in flight in the restored checkpoint."""
        restore = self._deployment.restore
        head = None if restore is None else restore.operators.get(self._program.operators[0].operator_id)
        if restore is None or head is None or not head.channels:
            return None
        source = open_segment_source(restore.location)
        edges = {spec.edge_id: spec for spec in self._program.inputs}
        specs = [edges[edge.edge_id] for edge in self._deployment.inputs]
        return Replay(self._deployment, specs, source, head.channels, assembled.contexts[0])

    def _outgoing_edges(self) -> dict[int, OutgoingEdge]:
        deployment, edges = self._deployment, dict[int, OutgoingEdge]()
        for spec in self._program.outputs:
            operator = self._program.operators[spec.operator]
            output = next(found for found in deployment.outputs if found.edge_id == spec.edge_id)
            edges[spec.edge_id] = OutgoingEdge(
                operator.operator_id,
                operator.uid or operator.name,
                deployment.attempt.subtask,
                deployment.parallelism,
                output.consumer_parallelism,
                output.input_index,
            )
        return edges

    def _await_inputs(self, endpoint: DataEndpoint) -> None:
        while not self._life.is_over and not endpoint.all_connected():
            mails = self._mailbox.take_all()
            for mail in mails:
                self._handle_early(mail, endpoint)
            if not mails:
                self._mailbox.wait(None)

    def _handle_early(self, mail: Mail, endpoint: DataEndpoint) -> None:
        """A mail that came before the subtask runs. Confirms and aborts are ignored: it holds nothing yet."""
        match mail:
            case ConnectInputs(producers):
                for producer in producers:
                    if producer.attempt not in self._connected:
                        self._connected.add(producer.attempt)
                        endpoint.connect(producer)
            case CancelTask():
                self._on_life(life.CancelRequested())
            case ControlLost():
                self._on_life(life.ControlBroken())
            case TriggerCheckpoint(checkpoint_id, _, _):
                reason = DeclineReason.TASK_NOT_READY
                self._port.decline(
                    checkpoint_id, reason, ErrorInfo("declined", "internal", f"{self._origin} is not running yet")
                )
            case CallMail(call):
                call()
            case _:
                pass

    def _on_life(self, event: life.LifeEvent) -> None:
        """Events of this file lead to reports only."""
        for command in self._life.on(event, self._clock.now_ms()):
            if isinstance(command, life.ReportState):
                self._port.state_changed(command.state)

    def _failed(self, raised: BaseException) -> ErrorInfo | None:
        """``None``: it had been canceled or cut off before, so this failure is a consequence."""
        if isinstance(raised, SubtaskLost):
            self._await_verdict()
        info = failure_info(raised, self._origin)
        self._life.on(life.SubtaskFailed(info), self._clock.now_ms())
        return info if self._life.state is life.LifeState.FAILED else None

    def _await_verdict(self) -> None:
        """A producer went away. If it failed or was canceled, the JobManager is about to cancel this attempt as well; a failure
        told before that would hide the cause."""
        deadline_ms = self._clock.monotonic_ms() + PEER_LOSS_GRACE_MS
        while not self._life.is_over and (left_ms := deadline_ms - self._clock.monotonic_ms()) > 0:
            for mail in self._mailbox.take_all():
                if isinstance(mail, CancelTask):
                    self._life.on(life.CancelRequested(), self._clock.now_ms())
                elif isinstance(mail, ControlLost):
                    self._life.on(life.ControlBroken(), self._clock.now_ms())
            if not self._life.is_over:
                self._mailbox.wait(left_ms)

    def _last_word(self, error: ErrorInfo | None) -> ExecutionState:
        outcome = _LAST_WORDS[self._life.state]
        if self._life.state is not life.LifeState.CUT_OFF:
            self._port.metrics(self._counters.told())
            self._port.state_changed(outcome, error)
        return outcome

    def _probe(self, point: str, told: dict[str, Any]) -> None:
        if self._environment.probe is not None:
            self._environment.probe(point, told)

    @property
    def _origin(self) -> str:
        deployment = self._deployment
        attempt = deployment.attempt
        return f"{deployment.task_name} ({attempt.subtask + 1}/{deployment.parallelism})#{attempt.attempt}"
