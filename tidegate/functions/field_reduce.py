"""`FieldReduce`: ``sum``, ``min``, ``max``, ``min_by`` and ``max_by`` of one field, as a ReduceFunction."""

from __future__ import annotations

from tidegate.common.row import Row
from tidegate.common.typeinfo import ArrowTypeInfo, BasicTypeInfo, RowTypeInfo, TupleTypeInfo, TypeInformation
from tidegate.functions.interfaces import ReduceFunction
from tidegate.model.errors import InvalidJob
from tidegate.model.values import FieldValue, Record, UserObject


class FieldReduce(ReduceFunction):
    """Reduces records by one field. ``position`` is ``None`` when the record is the value itself."""

    def __init__(self, function: str, position: int | str | None) -> None:
        self.function = function
        self.position: UserObject = position

    @staticmethod
    def on(function: str, position: int | str, stream_type: TypeInformation) -> FieldReduce:
        """Creates the function after checking it against the type of the stream, as far as that is known. Raises ``InvalidJob``."""
        if isinstance(stream_type, BasicTypeInfo):
            if position != 0:
                raise InvalidJob(
                    f"{function}({position!r}): records of {stream_type!r} are not composite, so only field 0 exists"
                )
            return FieldReduce(function, None)
        if isinstance(stream_type, (RowTypeInfo, TupleTypeInfo, ArrowTypeInfo)):
            names = stream_type.arrow_schema().names
            if position not in names and not (isinstance(position, int) and 0 <= position < len(names)):
                raise InvalidJob(
                    f"{function}({position!r}): the fields are {', '.join(names)} (or 0 to {len(names) - 1})"
                )
            return FieldReduce(function, names.index(position) if isinstance(position, str) else position)
        return FieldReduce(function, position)

    def reduce(self, value1: Record, value2: Record) -> Record:
        """Combines two records by their field. Of equal values the first record wins."""
        left, right = self._field(value1), self._field(value2)
        match self.function:
            case "sum":
                return self._with_field(value1, left + right)
            case "min":
                return value1 if left <= right else self._with_field(value1, right)
            case "max":
                return value1 if left >= right else self._with_field(value1, right)
            case "min_by":
                return value1 if left <= right else value2
            case _:
                return value1 if left >= right else value2

    def _field(self, record: Record) -> FieldValue:
        if self.position is None or not isinstance(record, (tuple, list, Row)):
            return record
        return record[self.position]

    def _with_field(self, record: Record, value: FieldValue) -> Record:
        """Returns a copy of a record with another value: records in state are never changed in place."""
        if self.position is None or not isinstance(record, (tuple, list, Row)):
            return value
        if isinstance(record, Row):
            changed = Row.of_kind(record.get_row_kind(), *record)
            if record._fields is not None:
                changed.set_field_names(record._fields)
            changed[self.position] = value
            return changed
        values = list(record)
        values[self.position] = value
        return tuple(values) if isinstance(record, tuple) else values
