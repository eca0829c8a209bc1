"""Examines each operator of a job and of a checkpoint, and each of its states.

job graph, programs ─┐
checkpoint ──────────┴─▶ matched by the rule that the JobManager applies (``restore_check``)
                             └─ each state ─▶ by the rule with which a subtask restores it (``states``); what state functions declare is
                                              learned by opening them in a process apart (``opening``)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tidegate.model.checkpoint import StateRedistribution
from tidegate.model.errors import CorruptData, StorageError
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey, OperatorId
from tidegate.model.program import OperatorSpec
from tidegate.model.restore_check import OperatorVerdict, RestoreOutcome, examine_restore
from tidegate.records.pickling import loads
from tidegate.state_reader import Checkpoint, Operator
from tidegate.taskmanager.compatibility.declared_states import asks_when_opened, declared_states
from tidegate.taskmanager.compatibility.opening import DEFAULT_LIMITS, NotOpened, OpeningLimits, open_apart
from tidegate.taskmanager.compatibility.states import (
    StateOutcome,
    StateVerdict,
    StoredState,
    examine_states,
    judge_states,
)


@dataclass(slots=True)
class Finding:
    """The verdict on an operator, and on each of its states."""

    verdict: OperatorVerdict
    parallelism: str = ""
    states: list[StateVerdict] = field(default_factory=list)

    @property
    def outcomes(self) -> set[str]:
        """The outcomes of the operator and of its states."""
        return {self.verdict.outcome.name, *(state.outcome.name for state in self.states)}


class Opening(Enum):
    """The process in which functions are opened to find out which state they request."""

    APART = "APART"
    """A separate process without network, that can start no programs and write no files."""
    HERE = "HERE"
    """This process, without these restrictions."""
    NOT = "NOT"


def examine_operators(
    graph: JobGraph,
    blobs: Mapping[BlobKey, bytes],
    checkpoint: Checkpoint,
    *,
    opening: Opening,
    verify: bool,
    limits: OpeningLimits = DEFAULT_LIMITS,
) -> list[Finding]:
    """Returns the verdict on each operator's state. ``verify``: all state is read, and its checksums are compared. ``limits``: of ``Opening.APART``."""
    programs = _programs_of(graph, blobs)
    specs = {operator_id: spec for operator_id, (spec, _) in programs.items()}
    stored = {operator.described.operator_id: operator for operator in checkpoint.operators}
    new = {op.operator_id: vertex.parallelism for vertex in graph.vertices for op in vertex.operators}
    findings, waiting = [], []
    for verdict in examine_restore(graph, checkpoint.manifest):
        finding = Finding(verdict)
        findings.append(finding)
        operator = stored.get(verdict.operator_id)
        if operator is None or verdict.operator_id not in specs:
            continue
        before, after = operator.described.parallelism, new[verdict.operator_id]
        finding.parallelism = f"{before}" if before == after else f"{before} to {after}"
        if verdict.outcome is RestoreOutcome.RESTORES:
            readable, damaged = _stored_states(checkpoint, operator, verify)
            finding.states = damaged
            spec, program = programs[verdict.operator_id]
            if opening is Opening.APART and readable and asks_when_opened(spec):
                waiting.append((finding, spec, program, readable))
            else:
                finding.states += examine_states(spec, readable, opened=opening is Opening.HERE)
    answers = open_apart([(program, spec.operator_id) for _, spec, program, _ in waiting], limits)
    for (finding, spec, _, readable), answer in zip(waiting, answers, strict=True):
        if isinstance(answer, NotOpened):
            finding.states += judge_states(spec, readable, declared_states(spec), answer.reason)
        else:
            finding.states += judge_states(spec, readable, answer)
    return findings


def _programs_of(graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> dict[OperatorId, tuple[OperatorSpec, bytes]]:
    """Returns the spec of each operator and the pickled program that contains it, by operator id."""
    programs = [blobs[vertex.program] for vertex in graph.vertices]
    return {spec.operator_id: (spec, program) for program in programs for spec in loads(program).operators}


def _stored_states(
    checkpoint: Checkpoint, operator: Operator, verify: bool
) -> tuple[list[StoredState], list[StateVerdict]]:
    """Returns the states that can be read, and verdicts on those that cannot."""
    readable, damaged = [], []
    for state in operator.states:
        mode = None if state.is_keyed or state.channels else StateRedistribution(state.redistribution)
        try:
            if not state.channels:  # what was in flight is no state of the operator
                kind, schema = checkpoint.kind_of(state), checkpoint.schema_of(state)
                readable.append(StoredState(state.name, kind, mode, schema, state.segments, checkpoint.source))
            if verify:
                for _ in checkpoint.tables_of(state, type_names=False):
                    pass
        except (CorruptData, StorageError) as error:
            readable = [found for found in readable if found.name != state.name]
            damaged.append(StateVerdict(state.name, StateOutcome.CANNOT_BE_READ, error.message))
    return readable, damaged
