"""Turns the exception that ended a subtask into the error that is reported: what happened, where, at which record, and the relevant traceback."""

from __future__ import annotations

import traceback
from dataclasses import replace
from reprlib import Repr

from tidegate.common.row import Row
from tidegate.model.errors import ErrorInfo, ExternalError, TidegateError, UserFunctionError
from tidegate.model.options import ShownRecord
from tidegate.model.values import Record
from tidegate.taskmanager.machines.memory.shortage import USUALLY


class TaskInterrupted(BaseException):
    """Raised inside a user function whose subtask is being cancelled (Java: ``InterruptedException``). No ``Exception``, so that functions which survive their
    own failures do not survive their cancellation.
    """


RECORD_CHARACTERS = 500
"""Most characters of a record in an error message. Chosen, not measured."""
SHOWN_FIELDS = 40
"""Most fields, or elements of a collection, of a record that are shown in an error message. Chosen, not measured."""


def failure_info(raised: BaseException, origin: str, shown: ShownRecord = ShownRecord.VALUE) -> ErrorInfo:
    """Returns the error to report for an exception that ended a subtask.

    Errors of the ``TidegateError`` tree are reported as they are, with the record as far as ``shown`` allows. Running out of memory is an external error,
    ``sys.exit``, ``KeyboardInterrupt`` and the like are the user's, and everything else is internal.
    """
    if isinstance(raised, TidegateError):
        info = ErrorInfo.of(raised, origin)
        return replace(info, message=info.message + _record_text(raised, shown))
    trace = "".join(traceback.format_exception(raised))
    if isinstance(raised, MemoryError):
        text = (
            f"{origin} ran out of memory: the kernel refused it more, because its slot is bounded (taskmanager.memory.process.size / "
            f"taskmanager.numberOfTaskSlots, or by its slot sharing group), or the machine has no more; {USUALLY}"
        )
        return ErrorInfo.of(ExternalError(text, details=trace), origin)
    if isinstance(raised, SystemExit):
        return ErrorInfo.of(UserFunctionError(f"user code called exit ({raised.code})", details=trace), origin)
    if not isinstance(raised, (Exception, TaskInterrupted)):  # KeyboardInterrupt and its like: none of them is ours
        text = f"user code raised {type(raised).__name__}" + (f": {raised}" if str(raised) else "")
        return ErrorInfo.of(UserFunctionError(text, details=trace), origin)
    return ErrorInfo("internal", "internal", f"{type(raised).__name__}: {raised}", details=trace, origin=origin)


def show_record(record: Record) -> str:
    """Returns the beginning of a record's ``repr``, field by field, so that large fields are not written out in full."""
    if isinstance(record, Row):
        names = [f"{name}=" for name in record._fields] if record._fields else [""] * len(record)
        fields = zip(names[:SHOWN_FIELDS], record, strict=False)
        text = f"Row({', '.join(name + _LIMITED.repr(value) for name, value in fields)})"
    else:
        text = _LIMITED.repr(record)
    return text if len(text) <= RECORD_CHARACTERS else text[: RECORD_CHARACTERS - 3] + "..."


def show_shape(record: Record) -> str:
    """Describes a record without its values: the names of its fields, if it has names, and their types."""
    if isinstance(record, dict):
        fields = [f"{key!r}: {type(value).__name__}" for key, value in record.items()]
    elif isinstance(record, Row) and record._fields:
        fields = [f"{name}: {type(value).__name__}" for name, value in zip(record._fields, record, strict=True)]
    elif isinstance(record, (Row, tuple, list)):
        fields = [type(value).__name__ for value in record]
    else:
        return type(record).__name__
    more = ", ..." if len(fields) > SHOWN_FIELDS else ""
    return f"{type(record).__name__}({', '.join(fields[:SHOWN_FIELDS])}{more})"[:RECORD_CHARACTERS]


def _limited() -> Repr:
    limited = Repr()
    limited.maxlist = limited.maxtuple = limited.maxdict = limited.maxset = limited.maxfrozenset = limited.maxdeque = (
        SHOWN_FIELDS
    )
    limited.maxstring = limited.maxother = limited.maxlong = RECORD_CHARACTERS
    return limited


_LIMITED = _limited()


def _record_text(raised: TidegateError, shown: ShownRecord) -> str:
    if not isinstance(raised, UserFunctionError) or not raised.inputs or shown is ShownRecord.NONE:
        return ""
    show = show_record if shown is ShownRecord.VALUE else show_shape
    if raised.inputs_words:
        return "; " + raised.inputs_words.format(*map(show, raised.inputs))
    shown_records = " and ".join(show(record) for record in raised.inputs)
    return (
        f"; the input record was {shown_records}"
        if len(raised.inputs) == 1
        else f"; the input records were {shown_records}"
    )
