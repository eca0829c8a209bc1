"""The queryable states of a subtask, and the queries of clients that are not answered yet.

    mail QueryState ─▶ queued ─▶ after each slice of input, for ``SHARE_MS`` at most ─▶ reply

Laws: lookups take a bounded share of the subtask's time while there is input, and never run between a barrier and its snapshot, since they are answered between
two steps. A failed lookup is reported to its client only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tidegate.model.errors import ErrorInfo, StateNotServed
from tidegate.model.ids import OperatorId
from tidegate.model.kv_state import KvStateInfo
from tidegate.taskmanager.keyed_state.queryable import QueryableState
from tidegate.taskmanager.runtime.ports import QueryState

SHARE_MS = 0.5
"""Milliseconds for which queries are answered after a step with input. Chosen, not measured: a tenth of a slice (5 ms)."""
IDLE_MS = 5.0
"""Milliseconds for which queries are answered while there is no input. As long as a slice, so that they delay a mail no more than records do."""


class KvStateRegistry:
    """The queryable states of a subtask, used from its thread. ``register``: registers a state at the JobManager; ``None``: state cannot be queried."""

    def __init__(self, max_parallelism: int, register: Callable[[KvStateInfo], None] | None) -> None:
        self._max_parallelism = max_parallelism
        self._register = register
        self._states: dict[str, QueryableState] = {}
        self._queued: deque[QueryState] = deque()

    def publish(self, operator_id: OperatorId, operator: str, state: QueryableState) -> None:
        """Makes a state queryable. Raises ``InvalidJob`` when the job has another one of that name."""
        self._states[state.name] = state
        if self._register is not None:
            self._register(
                KvStateInfo(
                    state.name,
                    operator_id,
                    operator,
                    state.state_name,
                    state.owned,
                    self._max_parallelism,
                    state.types(),
                )
            )

    def queue(self, question: QueryState) -> None:
        """Queues a query of a client; ``answer_some`` answers it."""
        self._queued.append(question)

    def answer_some(self, now_ms: Callable[[], float], *, has_input: bool) -> bool:
        """Answers queued queries for a limited time. Returns whether there were any."""
        if not self._queued:
            return False
        until_ms = now_ms() + (SHARE_MS if has_input else IDLE_MS)
        while self._queued:
            question = self._queued.popleft()
            try:
                question.reply(self._answer(question), None)
            except Exception as error:  # noqa: BLE001  user code among it: values pickle themselves
                question.reply(b"", ErrorInfo.of(error))
            if now_ms() >= until_ms:
                break
        return True

    def _answer(self, question: QueryState) -> bytes:
        state = self._states.get(question.name)
        if state is None:
            raise StateNotServed(f"this subtask has no queryable state {question.name!r} now")
        return state.answer(question.keys, self._max_parallelism)
