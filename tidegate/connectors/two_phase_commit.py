"""The sink of a ``TwoPhaseCommitSinkFunction``: when each of its methods is called, and what a checkpoint contains.

    restored: recover_and_commit (by checkpoint) ─▶ recover_and_abort ─▶ finish_recovering_context ─▶ begin_transaction
    barrier n: pre_commit ─▶ pending[n] ─▶ begin_transaction;   confirm: commit;   end: abort what is open

A committable is ``[TAG, name, start time, transaction]``. Those of a subtask and its context stay together when the job is rescaled
(``Sink.keeps_together``), since a context may decide what is aborted (Flink keeps them in one element, too).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Committer, Sink, SinkContext, SinkWriter
from tidegate.connectors.transactions import FunctionLog, Transaction
from tidegate.functions.two_phase_commit import TransactionHolder, TransactionSerializer, TwoPhaseCommitSinkFunction
from tidegate.model.errors import CorruptData, NotSerializable, blame
from tidegate.model.values import Committable, Record, StateValue, UserObject
from tidegate.records.batch import MIN_TIMESTAMP, Batch, RecordsBatch

TAG = "two-phase-commit"
_LOG = logging.getLogger(__name__)

_Function = TwoPhaseCommitSinkFunction[Record, UserObject, UserObject]
_Holder = TransactionHolder[UserObject]


class TwoPhaseCommitSink(Sink):
    """The sink that ``DataStream.add_sink`` makes of a two-phase commit function."""

    keeps_together = True

    def __init__(self, function: _Function) -> None:
        self.function: _Function = function
        self._transactions: Transactions | None = None

    def make_committer(self, context: SinkContext) -> Committer:
        self._transactions = Transactions(self.function, context)
        return _Committer(self._transactions)

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        transactions = self._transactions
        assert transactions is not None, "the committer is made first: it commits what was restored"
        transactions.recover(state)
        return _Writer(transactions, context)


class Transactions:
    """The transactions of one subtask."""

    def __init__(self, function: _Function, context: SinkContext) -> None:
        self._function = function
        self._context = context
        self._name = f"{type(function).__name__} {context.subtask_index + 1}/{context.parallelism}"
        self._begun = 0
        self._handled: list[StateValue] = []
        self._is_recovering = True
        self._is_at_end = False
        function.current, function.pending, function.user_context = None, {}, None

    def recover(self, contexts: Sequence[StateValue]) -> None:
        """Recovers after the restored transactions were committed. ``contexts``: of the subtasks whose state this one restored."""
        function, recovered = self._function, False
        for current, *context in contexts:
            if current is not None:
                transaction = _loaded(current[0], function.transaction_serializer)
                function.recover_and_abort(transaction)
                self._handled.append(transaction)
            if context:
                function.user_context = _loaded(context[0], function.context_serializer)
                function.finish_recovering_context(list(self._handled))
                recovered = True
        if not recovered:
            function.user_context = function.initialize_user_context()
        self._is_recovering = False
        self._handled = []
        self._begin()

    def commit(self, committable: Committable) -> None:
        """Commits a transaction, of this process or of another one."""
        tag, name, started_ms, kept = committable
        if tag != TAG:
            raise CorruptData(
                f"{self._name}: the checkpoint holds what is not a transaction of this sink: {committable!r:.200}; give the sink another uid where "
                "another kind of sink had its uid"
            )
        pending = self._function.pending
        assert pending is not None
        own = next(((n, holder) for n, holder in pending.items() if holder.name == name), None)
        if own is not None:
            self._warn_late(own[1])
            self._function.commit(own[1].handle)
            pending.pop(own[0])
            return
        holder = TransactionHolder(name, _loaded(kept, self._function.transaction_serializer), started_ms)
        self._recover_and_commit(holder)
        if self._is_recovering:
            self._handled.append(holder.handle)

    def pre_commit(self, checkpoint_id: int) -> list[Committable]:
        """Ends the open transaction with a pre-commit and begins the next one; returns the committable."""
        function, holder = self._function, self._function.current
        if holder is None:
            return []  # at the end: nothing was written since the last one
        assert function.pending is not None
        function.pre_commit(holder.handle)
        function.pending[checkpoint_id] = holder
        function.current = None
        committable = [TAG, holder.name, holder.transaction_start_time, self._kept(holder.handle)]
        if not self._is_at_end:
            self._begin()
        return [committable]

    def finish(self) -> None:
        """Notes the end of input: no transaction begins after the open one, since it would not be committed."""
        self._is_at_end = True

    def context_state(self) -> list[StateValue]:
        """Returns the open transaction, and the user context if there is one."""
        function, holder = self._function, self._function.current
        element = [None if holder is None else [self._kept(holder.handle), holder.transaction_start_time]]
        if function.user_context is not None:
            element.append(_dumped(function.user_context, function.context_serializer))
        return [element]

    def invoke(self, value: Record, about: TwoPhaseCommitSinkFunction.Context) -> None:
        """Writes a value into the open transaction."""
        assert self._function.current is not None
        self._function.invoke(self._function.current.handle, value, about)

    def close(self) -> None:
        """Aborts the open transaction; pending ones stay for the next attempt."""
        holder, self._function.current = self._function.current, None
        if holder is not None:
            self._function.abort(holder.handle)

    def _begin(self) -> None:
        handle = self._function.begin_transaction()
        self._begun += 1
        name = f"{self._context.attempt}-{self._begun}"
        self._function.current = TransactionHolder(name, handle, self._context.now_ms())

    def _kept(self, transaction: UserObject) -> Committable:
        return _dumped(transaction, self._function.transaction_serializer)

    def _recover_and_commit(self, holder: _Holder) -> None:
        function = self._function
        self._warn_late(holder)
        try:
            function.recover_and_commit(holder.handle)
        except Exception as error:
            timeout_ms = function.transaction_timeout_ms
            is_over = timeout_ms is not None and holder.elapsed_time(self._context.now_ms()) > timeout_ms
            if not (function.ignores_failures_after_timeout and is_over):
                raise
            _LOG.error(
                "%s: the transaction %r could not be committed (%s: %s). It has been open for longer than the transaction timeout of %d ms, so "
                "this is not tried again: its data may be lost",
                *(self._name, holder.handle, type(error).__name__, error, timeout_ms),
            )

    def _warn_late(self, holder: _Holder) -> None:
        ratio, timeout_ms = self._function.transaction_timeout_warning_ratio, self._function.transaction_timeout_ms
        if ratio is None or timeout_ms is None:
            return
        elapsed_ms = holder.elapsed_time(self._context.now_ms())
        if elapsed_ms > timeout_ms * ratio:
            _LOG.warning(
                "%s: the transaction %r has been open for %d ms, which is close to or beyond the transaction timeout of %d ms",
                *(self._name, holder.handle, elapsed_ms, timeout_ms),
            )


class _Committer(Committer):
    in_subtask_thread = True

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def commit(self, committables: Sequence[Committable]) -> None:
        for committable in committables:
            self._transactions.commit(committable)

    def name_of(self, committable: Committable) -> str:
        return str(committable[1])


class _Writer(SinkWriter):
    works_on = "records"

    def __init__(self, transactions: Transactions, context: SinkContext) -> None:
        self._transactions = transactions
        self._about = _Context(context)

    def write(self, batch: Batch) -> None:
        assert isinstance(batch, RecordsBatch)
        stamps = batch.timestamps
        for place, value in enumerate(batch.values):
            self._about.stamp = None if stamps is None else stamps[place]
            try:
                self._transactions.invoke(value, self._about)
            except Exception as error:
                blame(error, value)
                raise

    def write_watermark(self, timestamp_ms: int) -> None:
        self._about.watermark = timestamp_ms

    def flush(self, end_of_input: bool) -> None:
        if end_of_input:
            self._transactions.finish()

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        return self._transactions.pre_commit(checkpoint_id)

    def snapshot_state(self, checkpoint_id: int) -> list[StateValue]:
        return self._transactions.context_state()

    def close(self) -> None:
        self._transactions.close()


class _Context(TwoPhaseCommitSinkFunction.Context):
    def __init__(self, context: SinkContext) -> None:
        self._context = context
        self.stamp: int | None = None
        self.watermark = MIN_TIMESTAMP

    def current_processing_time(self) -> int:
        return self._context.now_ms()

    def current_watermark(self) -> int:
        return self.watermark

    def timestamp(self) -> int | None:
        return self.stamp


class FunctionTransactions(FunctionLog):
    """Lists transactions by name for ``tidegate txn``; only the function itself reaches its system."""

    system = "function"

    def takes(self, committable: Committable) -> bool:
        return isinstance(committable, list) and len(committable) == 4 and committable[0] == TAG

    def described(self, committable: Committable) -> tuple[str, str, int | None]:
        return str(committable[1]), f"{committable[3]!r:.80}", None

    def refusal(self, transaction: Transaction) -> str:
        return (
            f"{transaction.name} belongs to a sink function, and only that function can resolve it: restore the job from the "
            f"checkpoint, or use the tools of its system for {transaction.place}"
        )


def _dumped(value: UserObject, serializer: TransactionSerializer | None) -> Committable:
    """Serializes a value. Raises ``NotSerializable`` for one that msgpack would change, such as a tuple, which becomes a list."""
    if serializer is not None:
        return serializer.dumps(value)
    try:
        if msgspec.msgpack.decode(msgspec.msgpack.encode(value)) == value:
            return value
    except (TypeError, ValueError, OverflowError):
        pass
    raise NotSerializable(
        f"the transaction or user context {value!r:.200} is not made of plain values, which are strings, numbers, bytes, lists and dicts: "
        "give the TwoPhaseCommitSinkFunction serializers, such as the module pickle"
    )


def _loaded(kept: Committable, serializer: TransactionSerializer | None) -> UserObject:
    return kept if serializer is None else serializer.loads(kept)
