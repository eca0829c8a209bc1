"""The writer that sends records at once, into the open transaction."""

from __future__ import annotations

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import SinkWriter
from tidegate.connectors.kafka.open_transactions.subtask_transactions import SubtaskTransactions
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema
from tidegate.connectors.kafka.writers import Check
from tidegate.model.values import Committable, StateValue
from tidegate.records.batch import ArrowBatch, Batch


class OpenTransactionWriter(SinkWriter):
    """Writes to open transactions. Committables are complete at the barrier: the subtask waits for the broker's acknowledgement, as Flink's does."""

    works_on = "arrow"

    def __init__(
        self,
        transactions: SubtaskTransactions,
        schema: KafkaRecordSerializationSchema,
        input_type: TypeInformation,
        check: Check,
    ) -> None:
        self._transactions = transactions
        self._schema = schema
        self._input_type = input_type
        self._check = check
        self._rows = 0

    def write(self, batch: Batch) -> None:
        """Sends a batch. Raises ``UserError`` for a record that its topic would refuse, ``ExternalError`` for what the broker refuses."""
        assert isinstance(batch, ArrowBatch)
        records = self._schema.outgoing(batch, self._input_type)
        self._check(records, self._rows + 1)
        self._rows += records.num_rows
        self._transactions.write(records)

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        self._rows = 0
        prepared = self._transactions.vote(checkpoint_id)
        return [] if prepared is None else [prepared.as_list()]

    def snapshot_state(self, checkpoint_id: int) -> list[StateValue]:
        return [self._transactions.bundle().as_list()]

    def close(self) -> None:
        self._transactions.close_writer()
