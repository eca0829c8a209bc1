"""A batch in both representations, as records and as columns. Each is made at most once, however many consumers want it."""

from __future__ import annotations

import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.records.batch import ArrowBatch, Batch, RecordsBatch
from tidegate.records.record_check import looks_fit as type_check
from tidegate.records.record_codec import decode, encode
from tidegate.records.record_copy import RecordCopy
from tidegate.taskmanager.operators.rows.selectors import survives


class BothShapes:
    """A batch that is available as records and as columns. ``type_info``: the type of the records. ``operator``: the name of the operator that emitted it, for
    the ``SchemaMismatch`` of a value that does not fit the type.
    """

    __slots__ = ("_columns", "_operator", "_records", "_type_info", "copies", "given")

    def __init__(self, given: Batch, type_info: TypeInformation, operator: str) -> None:
        self.given = given
        self.copies: RecordCopy | None = None
        """Copies the records of a consumer; set while a consumer is served that is not the last one."""
        self._type_info = type_info
        self._operator = operator
        self._records = given if isinstance(given, RecordsBatch) else None
        self._columns = given if isinstance(given, ArrowBatch) else None

    def records(self) -> RecordsBatch:
        if self._records is None:
            assert self._columns is not None
            stamps = self._columns.timestamps
            values = decode(self._type_info, self._columns.data, self._operator)
            self._records = RecordsBatch(values, None if stamps is None else stamps.to_pylist())
        return self._records

    def as_received(self) -> RecordsBatch:
        """Returns the records as a consumer of the columns sees them: a DOUBLE that was given as 1 is 1.0 there."""
        records = self.records()
        if self.given is records and not survives(self._type_info, records.values):
            return RecordsBatch(decode(self._type_info, self.columns().data, self._operator), records.timestamps)
        return records

    def columns(self) -> ArrowBatch:
        if self._columns is None:
            assert self._records is not None
            stamps = self._records.timestamps
            data = encode(self._type_info, self._records.values, self._operator)
            self._columns = ArrowBatch(data, None if stamps is None else pa.array(stamps, pa.int64()))
        return self._columns

    def checked_records(self) -> RecordsBatch:
        """Returns the records as they are if each fits its type, whether or not they leave the chain. Raises ``SchemaMismatch`` with operator,
        field and value.
        """
        records = self.records()
        if self.given is records and self._columns is None:
            looks_fit = type_check(self._type_info)
            if looks_fit is not None and not looks_fit(records.values):
                self.columns()
        return records

    def wanted_by(self, works_on: str) -> Batch:
        """Returns the batch in the representation that an operator wants. ``works_on``: as in ``Operator.works_on``."""
        if works_on == "arrow":
            return self.columns()
        wanted = self.given if works_on == "any" and self._columns is not None else self.checked_records()
        if self.copies is None or isinstance(wanted, ArrowBatch):
            return wanted
        return self.copies.batch(wanted)
