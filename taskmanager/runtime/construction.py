"""Constructs the parts of one subtask attempt: its data connections, its restored and opened operators, and its mailbox loop.

Law: everything that is opened is registered with ``resources`` at once, which the caller closes in every case.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import InvalidJob, SubtaskLost
from tidegate.model.options import ShownRecord
from tidegate.model.program import VertexProgram
from tidegate.taskmanager.exchange.blocking.endpoint import BlockingEndpoint
from tidegate.taskmanager.exchange.endpoint import DataEndpoint
from tidegate.taskmanager.exchange.ports import InputGate
from tidegate.taskmanager.machines import subtask as lifecycle
from tidegate.taskmanager.machines.alignment import BarrierHandler
from tidegate.taskmanager.machines.barrier_handler import ExactlyOnceBarrierHandler
from tidegate.taskmanager.machines.barrier_tracker import TrackingHandler
from tidegate.taskmanager.machines.snapshot import SnapshotCoordinator
from tidegate.taskmanager.recording.recorder import Recorder
from tidegate.taskmanager.runtime.assembly import AssembledChain, ChainParts, assemble_chain
from tidegate.taskmanager.runtime.chain import OperatorChain
from tidegate.taskmanager.runtime.checkpointing.barriers import BarrierSender, OutgoingEdge
from tidegate.taskmanager.runtime.checkpointing.input_channels import InputChannels
from tidegate.taskmanager.runtime.checkpointing.replay import Replay
from tidegate.taskmanager.runtime.checkpointing.snapshots import SnapshotDriver, SnapshotTarget
from tidegate.taskmanager.runtime.environment import RuntimeSettings, SubtaskEnvironment
from tidegate.taskmanager.runtime.events.coordinator_events import CoordinatorEvents
from tidegate.taskmanager.runtime.failures import TaskInterrupted, failure_info
from tidegate.taskmanager.runtime.flushing import COLUMNS_TOLERATED_MS, FlushTimer
from tidegate.taskmanager.runtime.inputs.channel_input import ChannelInput, SubtaskInput
from tidegate.taskmanager.runtime.inputs.enumerated_input import EnumeratedInput
from tidegate.taskmanager.runtime.inputs.source_input import SourceInput, SourcePace
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.measuring.io_metrics import input_metrics, mailbox_metrics, output_metrics
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters
from tidegate.taskmanager.runtime.outputs import KeyedPartition, PartitionsLimit
from tidegate.taskmanager.runtime.ports import CallMail, ControlPort, TaskEventArrived
from tidegate.taskmanager.runtime.queryable.kv_states import KvStateRegistry
from tidegate.taskmanager.runtime.services import SubtaskServices
from tidegate.taskmanager.runtime.slicing import SliceSizer
from tidegate.taskmanager.runtime.subtask import SubtaskLoop
from tidegate.taskmanager.runtime.timers import TimerQueue
from tidegate.taskmanager.state.files.local_copies import LocalCopies
from tidegate.taskmanager.state.ports import SegmentSource


@dataclass(slots=True)
class SubtaskBuilder:
    """Constructs the parts of one subtask attempt. ``on_lifecycle`` takes the lifecycle events that arise while snapshots are taken."""

    deployment: TaskDeployment
    program: VertexProgram
    mailbox: Mailbox
    port: ControlPort
    environment: SubtaskEnvironment
    settings: RuntimeSettings
    subtask: lifecycle.SubtaskLifecycle
    on_lifecycle: Callable[[lifecycle.LifecycleEvent], None]
    counters: TaskCounters
    resources: ExitStack
    closing_errors: list[BaseException]
    copies: LocalCopies | None = None

    def make_endpoint(self) -> DataEndpoint | BlockingEndpoint:
        """Makes the endpoint of the data connections, none of which is open yet."""
        settings = replace(
            self.settings.exchange,
            clock=self.environment.clock.monotonic_ms,
            open_meter=self.environment.open_meter,
        )
        wakeup, stored = self.mailbox.wake, self.environment.stored
        endpoint = (
            DataEndpoint(
                attempt=self.deployment.attempt,
                token=self.deployment.data_token,
                listen=self.environment.listen,
                wakeup=wakeup,
                settings=settings,
                open_loop=self.environment.open_io,
                on_task_event=lambda edge_id, payload: self.mailbox.put(TaskEventArrived(edge_id, payload)),
            )
            if stored is None
            else BlockingEndpoint(self.deployment.attempt, stored, settings, wakeup)
        )
        self.resources.push(lambda _, error, __: self._close(endpoint, error))
        return endpoint

    def _close(self, endpoint: DataEndpoint | BlockingEndpoint, error: BaseException | None) -> None:
        """Closes the endpoint. Consumers are informed of a failure of this attempt, unless it followed from another attempt's failure."""
        if error is not None and not isinstance(error, (SubtaskLost, TaskInterrupted, GeneratorExit)):
            endpoint.lose(failure_info(error, origin_of(self.deployment), ShownRecord.NONE).message)
        endpoint.close()

    def add_outputs(self, endpoint: DataEndpoint | BlockingEndpoint) -> dict[int, KeyedPartition]:
        specs = {spec.edge_id: spec for spec in self.program.outputs}
        partitions: dict[int, KeyedPartition] = {}
        for output in self.deployment.outputs:
            if output.edge_id not in specs:
                raise InvalidJob(
                    f"the program of {origin_of(self.deployment)} has no output for edge {output.edge_id} of the job graph, so the two do not belong "
                    "together; submit the job again"
                )
            partitions[output.edge_id] = endpoint.add_output(output, specs[output.edge_id])
        return partitions

    def initialize(
        self,
        partitions: dict[int, KeyedPartition],
        listener: socket.socket | None,
        services: SubtaskServices,
        endpoint: DataEndpoint | BlockingEndpoint,
    ) -> AssembledChain:
        """Makes, restores and opens the operators of the chain."""
        recorder = self.recorder
        restore = self.deployment.restore
        segments: SegmentSource | None = None if restore is None else self.environment.open_segments(restore.location)
        if segments is not None and restore is not None and self.copies is not None and self.settings.from_local:
            segments = self.copies.source(segments, int(restore.checkpoint_id))
        pool = self.environment.open_background("operator-work", self.mailbox)
        self.resources.callback(pool.close, 0.0)
        parts = ChainParts(
            deployment=self.deployment,
            environment=self.environment,
            clock=self.environment.clock,
            timers=services.timers,
            counters=self.counters,
            segments=segments,
            run_async=pool.submit,
            mail=lambda call: self.mailbox.put(CallMail(call)),
            tell_coordinator=CoordinatorEvents(self.port).tell,
            send_task_event=endpoint.send_task_event,
            wakeup=self.mailbox.wake,
            listener=listener,
            publish_state=services.kv_states.publish,
            recorder=recorder,
        )
        assembled = assemble_chain(self.program, partitions, parts)
        self.resources.callback(lambda: self.closing_errors.extend(assembled.chain.close()))
        assembled.chain.setup(assembled.contexts)
        assembled.chain.open()
        return assembled

    @property
    def recorder(self) -> Recorder | None:
        """Returns the recorder of the chain's calls; ``None`` if nothing is recorded, as for a chain that had finished."""
        failures = self.environment.failures
        return None if failures is None or self.deployment.finished_on_restore else failures.recorder

    @property
    def restored_id(self) -> int:
        """Returns the id of the checkpoint from which the attempt starts; 0: none."""
        restore = self.deployment.restore
        return 0 if restore is None else int(restore.checkpoint_id)

    def make_services(self, endpoint: DataEndpoint | BlockingEndpoint) -> SubtaskServices:
        """Makes the services that all parts of this attempt use."""
        return SubtaskServices(
            attempt=self.deployment.attempt,
            mailbox=self.mailbox,
            port=self.port,
            clock=self.environment.clock,
            timers=TimerQueue(self.environment.clock),
            alarms=TimerQueue(self.environment.clock),
            counters=self.counters,
            probe=self.probe,
            check=endpoint.check,
            kv_states=KvStateRegistry(self.deployment.max_parallelism, self.environment.register_kv_state),
        )

    def make_loop(
        self,
        services: SubtaskServices,
        assembled: AssembledChain,
        partitions: dict[int, KeyedPartition],
        gate: InputGate | None,
    ) -> SubtaskLoop:
        outputs = list(partitions.values())
        self._watch(assembled.chain, outputs, gate)
        snapshots = SnapshotDriver(
            services,
            coordinator=SnapshotCoordinator(restored_id=self.restored_id),
            chain=assembled.chain,
            barriers=BarrierSender(outputs, self._outgoing_edges()),
            target=SnapshotTarget(
                writer=self.environment.open_snapshot_writer(self.mailbox),
                open_store=self.environment.open_store or self.settings.open_store,
                copies=self.copies if self.settings.local_backup else None,
                inline_bytes=self.settings.inline_threshold_bytes,
                recorder=self.recorder,
            ),
            on_started=lambda checkpoint_id: self.on_lifecycle(lifecycle.SnapshotStarted(checkpoint_id)),
        )
        self.resources.callback(snapshots.close)
        return SubtaskLoop(
            services,
            subtask=self.subtask,
            chain=assembled.chain,
            work=self._make_input(services, assembled, snapshots, gate, PartitionsLimit(outputs, self.counters)),
            partitions=outputs,
            snapshots=snapshots,
            flush=FlushTimer(
                None if self.environment.stored else self.program.flush_ms(self.settings.flush_ms),
                tolerated_ms=COLUMNS_TOLERATED_MS if assembled.chain.is_columnar else 0.0,
            ),
        )

    def _watch(self, chain: OperatorChain, outputs: Sequence[KeyedPartition], gate: InputGate | None) -> None:
        gauges = self.counters.gauges
        gauges |= {**output_metrics(outputs), **mailbox_metrics(self.mailbox)}
        gauges["numFiredTimers"] = lambda: chain.timers_fired
        if gate is not None:
            gauges |= input_metrics(gate)

    def _make_input(
        self,
        services: SubtaskServices,
        assembled: AssembledChain,
        snapshots: SnapshotDriver,
        gate: InputGate | None,
        limit: PartitionsLimit,
    ) -> SubtaskInput:
        chain = assembled.chain
        sizer = self._make_sizer(chain, limit)
        if gate is None:
            source = chain.source
            if source is None:
                raise InvalidJob(f"{origin_of(self.deployment)} has no inputs, and its first operator is not a source")
            output = assembled.head_output
            return SourceInput(
                services,
                source=source,
                chain=chain,
                snapshots=snapshots,
                sizer=sizer,
                emitted=lambda: output.records_emitted,
                pace=SourcePace(
                    waits_for_checkpoint=self.settings.sources_wait,
                    rest_share=self.settings.source_rest if self.deployment.outputs else 0.0,
                ),
            )
        head = self.program.operators[0]
        work = ChannelInput(
            services,
            gate=gate,
            channels=InputChannels.of(self.deployment, head.operator_id, head.uid or head.name),
            chain=chain,
            handler=self._make_handler(gate),
            snapshots=snapshots,
            sizer=sizer,
        )
        work.restore(self._make_replay(assembled))
        source = chain.source
        if head.kind != "enumerated_source" or source is None:
            return work
        return EnumeratedInput(
            services,
            channels=work,
            source=source,
            sizer=self._make_sizer(chain, limit),
            emitted=lambda: assembled.head_output.records_emitted,
        )

    def _make_sizer(self, chain: OperatorChain, limit: PartitionsLimit) -> SliceSizer:
        return SliceSizer(
            columnar=chain.is_columnar,
            step_ms=self.settings.slice_ms,
            first_records=1,
            most_records=chain.slice_records,
            meter=self.environment.open_meter(),
            outputs=limit,
        )

    def _make_handler(self, gate: InputGate) -> BarrierHandler:
        kind = ExactlyOnceBarrierHandler if self.settings.exactly_once else TrackingHandler
        return kind(
            range(gate.channels),
            last_id=self.restored_id,
            checkpoints_after_tasks_finish=self.settings.checkpoints_after_tasks_finish,
        )

    def _make_replay(self, assembled: AssembledChain) -> Replay | None:
        """Makes the replay of the in-flight data in the restored checkpoint; ``None`` if there is none."""
        restore = self.deployment.restore
        head = None if restore is None else restore.operators.get(self.program.operators[0].operator_id)
        if restore is None or head is None or not head.channels:
            return None
        source = self.environment.open_segments(restore.location)
        edges = {spec.edge_id: spec for spec in self.program.inputs}
        specs = [edges[edge.edge_id] for edge in self.deployment.inputs]
        return Replay(self.deployment, specs, source, head.channels, assembled.contexts[0])

    def _outgoing_edges(self) -> dict[int, OutgoingEdge]:
        deployment, edges = self.deployment, dict[int, OutgoingEdge]()
        for spec in self.program.outputs:
            operator = self.program.operators[spec.operator]
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

    def probe(self, point: str, details: Mapping[str, object]) -> None:
        if self.environment.probe is not None:
            self.environment.probe(point, details)


def origin_of(deployment: TaskDeployment) -> str:
    """Returns the name of the attempt for messages, such as ``map (2/4)#0``."""
    attempt = deployment.attempt
    return f"{deployment.task_name} ({attempt.subtask + 1}/{deployment.parallelism})#{attempt.attempt}"
