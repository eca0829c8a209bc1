"""Builds the operator chain of a subtask from its program: makes the operators and connects them to each other and to the result partitions."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tidegate.model.coordinators.operator_events import CoordinatorEvent
from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import Partitioner
from tidegate.model.ids import OperatorId
from tidegate.model.program import InputSpec, KeySpec, OperatorSpec, OutputSpec, VertexProgram
from tidegate.records.record_copy import reuses_objects
from tidegate.taskmanager.keyed_state.queryable import PublishState
from tidegate.taskmanager.operators.operator import (
    AsyncCallsPort,
    BackgroundCalls,
    Clock,
    Coordination,
    Operator,
    OperatorContext,
    ProcessingTimers,
    Resources,
    RunAsync,
)
from tidegate.taskmanager.operators.rows.selectors import KeyFunction
from tidegate.taskmanager.recording.recorder import Recorder
from tidegate.taskmanager.runtime.chain import FinishedOperator, OpenKeys, OperatorChain
from tidegate.taskmanager.runtime.environment import SubtaskEnvironment
from tidegate.taskmanager.runtime.events.task_events import SendTaskEvent, TaskEventDispatcher
from tidegate.taskmanager.runtime.measuring.io_metrics import (
    Entered,
    HeadInput,
    watch_bytes,
    watch_operator,
    watch_sink,
)
from tidegate.taskmanager.runtime.measuring.operator_times import OperatorTimers, OperatorTimes
from tidegate.taskmanager.runtime.measuring.subtask_metrics import OperatorMetrics, TaskCounters
from tidegate.taskmanager.runtime.operator_factory import make_operator
from tidegate.taskmanager.runtime.outputs import (
    ChainedTarget,
    ChainOutput,
    KeyedPartition,
    NetworkTarget,
    OperatorInput,
)
from tidegate.taskmanager.runtime.recorded import RecordedChain, record_contexts, recorded_mail
from tidegate.taskmanager.state.ports import OperatorRestore, SegmentSource


@dataclass(frozen=True, slots=True)
class ChainParts:
    """The services and settings from which the contexts of a chain's operators are made."""

    deployment: TaskDeployment
    environment: SubtaskEnvironment
    clock: Clock
    timers: ProcessingTimers
    counters: TaskCounters
    segments: SegmentSource | None
    run_async: RunAsync
    mail: Callable[[Callable[[], None]], None] | None = None
    """Runs a function in the subtask's thread. May be called from any thread."""
    tell_coordinator: Callable[[OperatorId, CoordinatorEvent], None] | None = None
    """Sends an event to the coordinator of an operator. To be called in the subtask's thread."""
    send_task_event: SendTaskEvent | None = None
    """Sends an event to the producers of the subtask's inputs. To be called in the subtask's thread."""
    wakeup: Callable[[], None] | None = None
    listener: socket.socket | None = None
    publish_state: PublishState | None = None
    recorder: Recorder | None = None
    make: Callable[[OperatorSpec], Operator] = make_operator


@dataclass(frozen=True, slots=True)
class AssembledChain:
    """The operators of a subtask, connected to each other and to its outputs."""

    chain: OperatorChain
    contexts: list[OperatorContext]
    head_output: ChainOutput


def assemble_chain(
    program: VertexProgram, partitions: Mapping[int, KeyedPartition], parts: ChainParts
) -> AssembledChain:
    """Builds the chain of a subtask. ``partitions``: its result partitions, by edge id.

    Raises ``InvalidJob`` when the program does not fit its deployment, and any error of an operator's constructor.
    """
    deployment = parts.deployment
    if deployment.finished_on_restore:
        return _finished_chain(program, partitions, parts)
    operators = [parts.make(spec) for spec in program.operators]
    reuses = reuses_objects(deployment.configuration)
    outputs = [ChainOutput(spec.name, spec.output_type, reuses_objects=reuses) for spec in program.operators]
    inputs: list[OperatorInput] = [OperatorInput() for _ in operators]
    times = OperatorTimes(len(operators), parts.clock.monotonic_ms)
    for link in program.links:
        target_types = program.operators[link.target].input_types
        outputs[link.source].add(
            ChainedTarget(operators[link.target], inputs[link.target], link.target, times),
            link.tag,
            target_types[0] if target_types else None,
        )
    task_events = TaskEventDispatcher(
        program, operators, recorded_mail(parts.mail, parts.recorder), parts.send_task_event
    )
    contexts = [_context(program, i, outputs[i], parts) for i in range(len(operators))]
    for position, context in enumerate(contexts):
        context.coordination.send_task_event = task_events.sender(position)
        context.timers = OperatorTimers(parts.timers, times, position)
    keys: list[OpenKeys] = []
    for output in program.outputs:
        selected = None
        if output.key is not None and output.key.selector is not None:
            context = contexts[output.operator]
            key = _bound(output.key, output, deployment)
            selected = KeyFunction(key, f"key selector behind {context.operator_name}")
            keys.append((selected, context))
        target = NetworkTarget(_partition(partitions, output.edge_id), parts.counters, selected)
        outputs[output.operator].add(target, output.tag, output.type_info)
    entered: list[Entered] = [HeadInput(parts.counters), *inputs[1:]]
    last_sender = max((output.operator for output in program.outputs), default=-1)
    emitting = {link.source for link in program.links} | {output.operator for output in program.outputs}
    for position, (context, came, went) in enumerate(zip(contexts, entered, outputs, strict=True)):
        parts.counters.operator_ids[context.operator_name] = context.operator_id
        watch_operator(context.metrics, came, went, partial(times.spent_ms, position))
        watch_bytes(context.metrics, parts.counters, is_head=position == 0, sends=position == last_sender)
        if position not in emitting:
            watch_sink(context.metrics, came)
    open_chain: Callable[..., OperatorChain] = OperatorChain
    if parts.recorder is not None:
        record_contexts(contexts, program, outputs[0], parts.recorder)
        open_chain = partial(RecordedChain, recorder=parts.recorder, clock=parts.clock)
    chain = open_chain(
        operators, program.operators, _inputs(program, deployment), keys=keys, task_events=task_events, times=times
    )
    return AssembledChain(chain, contexts, outputs[0])


def _bound(key: KeySpec, output: OutputSpec, deployment: TaskDeployment) -> KeySpec:
    """Returns the key of an outgoing edge; a custom partitioner's function is bound to the number of consumers."""
    if output.partitioner is not Partitioner.CUSTOM:
        return key
    consumers = next(len(edge.consumers) for edge in deployment.outputs if edge.edge_id == output.edge_id)
    return KeySpec(selector=key.selector.bound(consumers))


def _finished_chain(
    program: VertexProgram, partitions: Mapping[int, KeyedPartition], parts: ChainParts
) -> AssembledChain:
    output = ChainOutput(program.operators[0].name, None)
    for spec in program.outputs:
        output.add(NetworkTarget(_partition(partitions, spec.edge_id), parts.counters, None))
    operators: list[Operator] = [FinishedOperator()]
    chain = OperatorChain(operators, program.operators[:1], _inputs(program, parts.deployment))
    return AssembledChain(chain, [_context(program, 0, output, parts)], output)


def _context(program: VertexProgram, index: int, output: ChainOutput, parts: ChainParts) -> OperatorContext:
    deployment, environment, spec = parts.deployment, parts.environment, program.operators[index]
    return OperatorContext(
        attempt=deployment.attempt,
        operator_id=spec.operator_id,
        operator_name=spec.name,
        job_name=deployment.job_name,
        task_name=deployment.task_name,
        parallelism=deployment.parallelism,
        max_parallelism=deployment.max_parallelism,
        output=output,
        clock=parts.clock,
        timers=parts.timers,
        metrics=OperatorMetrics(parts.counters, spec.name),
        configuration=deployment.configuration,
        output_type=spec.output_type,
        restore=_restore_of(spec.operator_id, parts),
        background=BackgroundCalls(parts.run_async, _async_calls(parts), parts.wakeup),
        coordination=Coordination(
            align_watermark=environment.align_watermark,
            send_operator_event=_event_sender(spec.operator_id, parts),
            publish_state=parts.publish_state,
        ),
        resources=Resources(
            temp_dir=environment.temp_dir,
            managed_memory_bytes=environment.managed_memory_bytes,
            listener=parts.listener,
            spark_rows=environment.spark_rows,
            spark_service=environment.spark_service,
            external_resources=environment.external_resources,
        ),
    )


def _restore_of(operator_id: OperatorId, parts: ChainParts) -> OperatorRestore | None:
    restore = parts.deployment.restore
    if restore is None or parts.segments is None:
        return None
    return OperatorRestore(
        int(restore.checkpoint_id), restore.location, restore.operators.get(operator_id), parts.segments
    )


def _event_sender(operator_id: OperatorId, parts: ChainParts) -> Callable[[CoordinatorEvent], None] | None:
    tell = parts.tell_coordinator
    return None if tell is None else partial(tell, operator_id)


def _async_calls(parts: ChainParts) -> Callable[[Callable[[], None]], AsyncCallsPort] | None:
    open_calls, mail = parts.environment.open_async_calls, parts.mail
    if open_calls is None or mail is None:
        return None
    return lambda ready: open_calls(lambda: mail(ready))


def _inputs(program: VertexProgram, deployment: TaskDeployment) -> list[InputSpec]:
    """Returns the input specs in the order of the deployment's edges. Raises ``InvalidJob`` if the program lacks one."""
    by_edge = {spec.edge_id: spec for spec in program.inputs}
    missing = [edge.edge_id for edge in deployment.inputs if edge.edge_id not in by_edge]
    if missing:
        raise InvalidJob(
            f"the program of {deployment.task_name} has no input for the edges {missing} of the job graph, so the two do not belong together; submit "
            "the job again"
        )
    return [by_edge[edge.edge_id] for edge in deployment.inputs]


def _partition(partitions: Mapping[int, KeyedPartition], edge_id: int) -> KeyedPartition:
    found = partitions.get(edge_id)
    if found is None:
        raise InvalidJob(
            f"the program of a subtask writes to edge {edge_id}, which the job graph does not have; submit the job again"
        )
    return found
