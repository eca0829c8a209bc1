"""The writers of the Kafka sink: what is done with records until the checkpoint.

EXACTLY_ONCE     gathered as columns; the barrier cuts the epoch off, the snapshot thread packs it into a committable, unless it
                 is so small that handing it over would take longer
AT_LEAST_ONCE    sent at once; the snapshot waits until the broker acknowledged everything sent before
NONE             sent at once, without waiting; what the broker refuses is only counted in the log
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import SinkContext, SinkWriter
from tidegate.connectors.kafka.client import typed_error
from tidegate.connectors.kafka.publisher import Epoch
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema, to_bytes
from tidegate.connectors.kafka.sending import send
from tidegate.model.errors import ExternalError, Unreachable
from tidegate.model.values import Committable
from tidegate.records.batch import ArrowBatch, Batch, from_wire, to_wire

FLUSH_TIMEOUT_S = 60.0
"""How many seconds a flush may take. Chosen, not measured: a broker that takes longer fails the checkpoint, and the job restarts."""
GATHERED_ROWS = 1024
GATHERED_BYTES = 1 << 20
"""Smaller batches are encoded together: each has a cost of its own."""
SMALL_BYTES = 8 << 10
"""Epochs up to this size are packed at the barrier, since they travel in the acknowledgement (docs/adr/0063)."""

Check = Callable[[pa.RecordBatch, int], None]
"""Checks records before they are accepted: ``TopicRules.check``, or a check that asks no broker."""

_LOG = logging.getLogger(__name__)


def branch_of(context: SinkContext) -> str:
    """Returns the branch of one attempt: no other process ever closes epochs under it."""
    return hashlib.sha256(f"{context.attempt}/{context.operator_id}".encode()).hexdigest()[:16]


class EpochWriter(SinkWriter):
    """Buffers records until the checkpoint and returns them as its committable (exactly once)."""

    works_on = "arrow"

    def __init__(
        self,
        schema: KafkaRecordSerializationSchema,
        input_type: TypeInformation,
        context: SinkContext,
        check: Check,
        prefix: str,
        marker_topic: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Creates the writer. ``check``: raises ``UserError`` for records that the broker would refuse at the commit."""
        self._schema = schema
        self._input_type = input_type
        self._branch = branch_of(context)
        self._subtask = context.subtask_index
        self._check = check
        self._names = prefix, marker_topic
        self._clock = clock
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = 0
        self._gathered_bytes = 0
        self._epoch: list[pa.RecordBatch] = []
        self._prepared_rows = 0

    def write(self, batch: Batch) -> None:
        """Buffers records, and encodes them when there are enough."""
        assert isinstance(batch, ArrowBatch)
        wire = to_wire(batch)
        if self._gathered and not wire.schema.equals(self._gathered[0].schema):
            self._prepare()
        self._gathered.append(wire)
        self._gathered_rows += wire.num_rows
        self._gathered_bytes += wire.nbytes
        if self._gathered_rows >= GATHERED_ROWS or self._gathered_bytes >= GATHERED_BYTES:
            self._prepare()

    def flush(self, end_of_input: bool) -> None:
        self._prepare()

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        sealed = self.seal(checkpoint_id)
        return sealed() if callable(sealed) else sealed

    def seal(self, checkpoint_id: int) -> list[Committable] | Callable[[], list[Committable]]:
        self._prepare()
        if not self._epoch:
            return []
        epoch, self._epoch, self._prepared_rows = self._epoch, [], 0
        closed_at_ms = int(self._clock() * 1000)

        def packed() -> list[Committable]:
            records = to_bytes(epoch)
            return [Epoch(self._branch, self._subtask, checkpoint_id, closed_at_ms, records, *self._names).as_list()]

        return packed() if sum(records.nbytes for records in epoch) <= SMALL_BYTES else packed

    def _prepare(self) -> None:
        """Encodes buffered records. Raises what the serialization schema raises, and ``UserError`` for a record that its topic would refuse."""
        if not self._gathered:
            return
        gathered, self._gathered = self._gathered, []
        self._gathered_rows = self._gathered_bytes = 0
        batch = from_wire(gathered[0] if len(gathered) == 1 else pa.concat_batches(gathered))
        records = self._schema.outgoing(batch, self._input_type)
        self._check(records, self._prepared_rows + 1)
        self._prepared_rows += records.num_rows
        self._epoch.append(records)


class DirectWriter(SinkWriter):
    """Sends records to Kafka without transactions. ``waits``: whether a checkpoint waits until the records are delivered (at least once)."""

    works_on = "arrow"

    def __init__(
        self,
        schema: KafkaRecordSerializationSchema,
        input_type: TypeInformation,
        client: Any,
        servers: str,
        check: Check,
        *,
        waits: bool,
    ) -> None:
        """Creates the writer. ``waits``: whether the guarantee is at least once."""
        self._schema = schema
        self._input_type = input_type
        self._client = client
        self._servers = servers
        self._check_records = check
        self._sent_rows = 0
        self._waits = waits
        self._refused: Any = None

    def write(self, batch: Batch) -> None:
        """Sends a batch. Raises the error of an earlier delivery."""
        assert isinstance(batch, ArrowBatch)
        records = self._schema.outgoing(batch, self._input_type)
        self._check_records(records, self._sent_rows + 1)
        self._sent_rows += records.num_rows
        send(self._client, records, self._servers, self._delivered)
        self._check()

    def flush(self, end_of_input: bool) -> None:
        self._sent_rows = 0
        if self._waits or end_of_input:
            left = self._client.flush(FLUSH_TIMEOUT_S)
            self._check()
            if left:
                raise Unreachable(
                    f"{left} records were not acknowledged in {FLUSH_TIMEOUT_S:g} s by Kafka at {self._servers}"
                )

    def close(self) -> None:
        self._client.purge()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._refused is None:
            self._refused = error
            if not self._waits:
                _LOG.warning("Kafka at %s refused a record for %s: %s", self._servers, message.topic(), error.str())

    def _check(self) -> None:
        if self._refused is not None and self._waits:
            error = typed_error(self._refused, "deliver a record", self._servers)
            raise error if isinstance(error, ExternalError) else ExternalError(error.message)
