"""`TwoPhaseCommitSinkFunction`: a sink whose writes are transactions of another system, committed with the checkpoint that contains them.

    begin ─▶ invoke · invoke ─▶ barrier n: pre_commit, kept as pending[n], and the next one begins
                                   │ n or a later one is confirmed ─▶ commit
                                   │ a restart from n or a later one ─▶ recover_and_commit
                                   └ what was open when the restored checkpoint was taken ─▶ recover_and_abort

Follows Flink's ``TwoPhaseCommitSinkFunction.java``, which PyFlink does not have; names are Java's in snake case. The protocol itself is
``tidegate.connectors.two_phase_commit``. All methods are called in the subtask's thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from tidegate.functions.base import Function

__all__ = ["TransactionHolder", "TransactionSerializer", "TwoPhaseCommitSinkFunction"]

IN = TypeVar("IN")
TXN = TypeVar("TXN")
CONTEXT = TypeVar("CONTEXT")


class TransactionSerializer(Protocol):
    """Serializes a transaction or a user context; the module ``pickle`` is one."""

    def dumps(self, obj: object, /) -> bytes:
        """Returns the object as bytes."""

    def loads(self, data: bytes, /) -> object:
        """Returns the object that ``dumps`` was given."""


class TransactionHolder(Generic[TXN]):
    """A transaction, and when it began (Flink: ``TwoPhaseCommitSinkFunction.TransactionHolder``)."""

    def __init__(self, name: str, handle: TXN, transaction_start_time: int) -> None:
        """Creates it. ``name``: under which the checkpoint lists it. ``transaction_start_time``: ms since the epoch."""
        self.name = name
        self.handle = handle
        self.transaction_start_time = transaction_start_time

    def elapsed_time(self, now_ms: int) -> int:
        """Returns how many ms it has been open."""
        return now_ms - self.transaction_start_time


class TwoPhaseCommitSinkFunction(Function, Generic[IN, TXN, CONTEXT]):
    """The base class of two-phase commit sinks for ``DataStream.add_sink``. ``TXN`` is the handle of a transaction: what another process needs to
    commit or abort it. ``CONTEXT`` is what the subtask remembers besides, such as a pool of transactional ids.

    Both are kept in checkpoints: as values of strings, numbers, bytes, lists and dicts, or through a serializer. ``open`` comes first, before
    anything is recovered, so that the function can reach its system then; in Java recovery comes before ``open``.
    """

    class Context(ABC):
        """The context of a value in ``invoke`` (Flink: ``SinkFunction.Context``)."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Returns the machine's time, in ms since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Returns the stream's watermark in ms."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Returns the event time of the value in ms, or ``None`` when it has none."""

    transaction_serializer: TransactionSerializer | None = None
    context_serializer: TransactionSerializer | None = None
    transaction_timeout_ms: int | None = None
    ignores_failures_after_timeout = False
    transaction_timeout_warning_ratio: float | None = None

    current: TransactionHolder[TXN] | None = None
    """The open transaction, set by the runtime; functions call ``current_transaction``."""
    pending: dict[int, TransactionHolder[TXN]] | None = None
    """Pre-committed transactions by checkpoint, set by the runtime; functions call ``pending_transactions``."""
    user_context: CONTEXT | None = None

    def __init__(
        self,
        transaction_serializer: TransactionSerializer | None = None,
        context_serializer: TransactionSerializer | None = None,
    ) -> None:
        """Creates the sink. Serializers may be omitted for plain values. With ``pickle`` any picklable object is a transaction."""
        self.transaction_serializer = transaction_serializer
        self.context_serializer = context_serializer

    # --- to be implemented -----------------------------------------------------------------------------

    @abstractmethod
    def begin_transaction(self) -> TXN:
        """Starts a transaction, after recovery and at each barrier, and returns its handle."""

    @abstractmethod
    def invoke(self, transaction: TXN, value: IN, context: Context) -> None:
        """Writes a value within the transaction."""

    @abstractmethod
    def pre_commit(self, transaction: TXN) -> None:
        """Makes everything that was written durable, so that ``commit`` will succeed from any process. Called at the barrier, while the subtask is
        blocked."""

    @abstractmethod
    def commit(self, transaction: TXN) -> None:
        """Makes a pre-committed transaction visible. An exception fails the attempt, and ``recover_and_commit`` follows in the next one; an
        ``ExternalError`` is retried ``sink.committer.retries`` times before."""

    @abstractmethod
    def abort(self, transaction: TXN) -> None:
        """Aborts the open transaction, when the subtask ends."""

    # --- to be overridden ------------------------------------------------------------------------------

    def recover_and_commit(self, transaction: TXN) -> None:
        """Commits a transaction of an earlier attempt, in the order of checkpoints. If it was committed before, this must do nothing. If it never
        succeeds, data is lost."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: TXN) -> None:
        """Aborts a transaction that was open when the restored checkpoint was taken. It may not exist any longer."""
        self.abort(transaction)

    def initialize_user_context(self) -> CONTEXT | None:
        """Returns the context of a subtask for which none was restored."""
        return None

    def finish_recovering_context(self, handled_transactions: Sequence[TXN]) -> None:
        """Finishes the recovery of a context; called for each restored one, which ``get_user_context`` returns then. ``handled_transactions`` were
        committed or aborted; other transactions that the context knows may be aborted here."""

    # --- to be used ------------------------------------------------------------------------------------

    def get_user_context(self) -> CONTEXT | None:
        """Returns the context of this subtask; changes of it are part of the next checkpoint."""
        return self.user_context

    def current_transaction(self) -> TXN | None:
        """Returns the open transaction."""
        return None if self.current is None else self.current.handle

    def pending_transactions(self) -> list[tuple[int, TXN]]:
        """Returns the pre-committed transactions that wait for their checkpoint, as (checkpoint id, transaction)."""
        return [(checkpoint_id, holder.handle) for checkpoint_id, holder in sorted((self.pending or {}).items())]

    def set_transaction_timeout(self, transaction_timeout: int) -> TwoPhaseCommitSinkFunction[IN, TXN, CONTEXT]:
        """Sets after how many ms the system aborts a transaction. It has an effect only with the next two. Raises ``ValueError`` for less than 0."""
        if transaction_timeout < 0:
            raise ValueError(f"a transaction timeout of {transaction_timeout} ms is negative")
        self.transaction_timeout_ms = transaction_timeout
        return self

    def ignore_failures_after_transaction_timeout(self) -> TwoPhaseCommitSinkFunction[IN, TXN, CONTEXT]:
        """Ignores failures of ``recover_and_commit`` for transactions older than the timeout: they are logged as errors, and the job continues without
        their data. Otherwise the job would fail for ever once the system has aborted the transaction."""
        self.ignores_failures_after_timeout = True
        return self

    def enable_transaction_timeout_warnings(self, warning_ratio: float) -> TwoPhaseCommitSinkFunction[IN, TXN, CONTEXT]:
        """Logs a warning for a transaction that is committed after more than this part of the timeout, 0 to 1. Raises ``ValueError`` for another ratio."""
        if not 0 <= warning_ratio <= 1:
            raise ValueError(f"the warning ratio must be between 0 and 1, not {warning_ratio}")
        self.transaction_timeout_warning_ratio = warning_ratio
        return self
