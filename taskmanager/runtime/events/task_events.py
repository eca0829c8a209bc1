"""Delivers events that travel upstream, from operators to those in front of them, within one subtask (Flink: ``TaskEventDispatcher.java``).

    operator 2 of the chain ─ send ─▶ mail ─▶ operator 1 ── no listener ──▶ operator 0 ── no listener ──▶ producers of all inputs
    a consumer ─ EVENT frame ─▶ mail ─▶ the operator that feeds its edge ──▶ ... the same way up

Laws: a function gets an event between two records, never while it processes one. Events are in no checkpoint: those in flight when a subtask ends are lost. An
operator that may not emit any records, since it has ended, gets no events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.model.channel_events import UserEvent
from tidegate.model.errors import CorruptFrame, InternalError
from tidegate.model.program import VertexProgram
from tidegate.taskmanager.operators.operator import Operator
from tidegate.wire.channel_messages import decode_event

HEAD = 0
"""Position of the head in the chain."""
SendTaskEvent = Callable[[UserEvent, int | None], None]
"""Sends an event to the producers of this input of the head; ``None``: of all inputs."""


class TaskEventDispatcher:
    """Delivers upstream events to the operators of one subtask. Used from the subtask's thread."""

    def __init__(
        self,
        program: VertexProgram,
        operators: Sequence[Operator],
        mail: Callable[[Callable[[], None]], None] | None,
        send: SendTaskEvent | None,
    ) -> None:
        """Connects the operators of a chain. ``mail`` runs a call in the subtask's thread, and ``send`` sends an event to other subtasks; both are ``None`` in
        a test harness, where no event leaves the chain.
        """
        self._operators = operators
        self._in_front_of = {link.target: link.source for link in program.links}
        self._feeding = {output.edge_id: output.operator for output in program.outputs}
        self._mail = mail
        self._send = send

    def sender(self, position: int) -> Callable[[UserEvent, int], None]:
        """Returns the function with which the operator at ``position`` sends upstream events."""

        def send(event: UserEvent, input_index: int) -> None:
            if position == HEAD:
                self._send_up(event, input_index)
            elif self._mail is not None:
                self._mail(lambda: self._deliver(self._in_front_of[position], event))

        return send

    def on_arrived(self, edge_id: int, payload: bytes) -> None:
        """Delivers an event that a consumer of this edge sent. Raises ``CorruptFrame``, and what a listening function raises."""
        event = decode_event(payload)
        if not isinstance(event, UserEvent):
            raise CorruptFrame(
                f"a consumer of edge {edge_id} sent {type(event).__name__} against the stream, where only user events may go"
            )
        if edge_id not in self._feeding:
            raise InternalError(
                f"an event came from a consumer of edge {edge_id}, to which this subtask does not write"
            )
        self._deliver(self._feeding[edge_id], event)

    def _deliver(self, position: int, event: UserEvent) -> None:
        while True:
            operator = self._operators[position]
            if operator.context.has_ended or operator.on_task_event(event):
                return
            if position == HEAD:
                self._send_up(event, None)
                return
            position = self._in_front_of[position]

    def _send_up(self, event: UserEvent, input_index: int | None) -> None:
        if self._send is not None:
            self._send(event, input_index)
