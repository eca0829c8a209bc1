"""Turns an exception that ended a subtask into the value that is reported: what happened, where, and the traceback that
helps."""

from __future__ import annotations

import traceback

from tidegate.model.errors import ErrorInfo, ExternalError, TidegateError, UserFunctionError


def failure_info(raised: BaseException, origin: str) -> ErrorInfo:
    """Errors of our tree as they are; running out of memory and ``sys.exit`` of user code get a name; anything else is ours."""
    if isinstance(raised, TidegateError):
        return ErrorInfo.of(raised, origin)
    trace = "".join(traceback.format_exception(raised))
    if isinstance(raised, MemoryError):
        text = f"{origin} ran out of memory; give its slot more (taskmanager.memory.process.size, taskmanager.numberOfTaskSlots)"
        return ErrorInfo.of(ExternalError(text, details=trace), origin)
    if isinstance(raised, SystemExit):
        return ErrorInfo.of(UserFunctionError(f"user code called exit ({raised.code})", details=trace), origin)
    return ErrorInfo("internal", "internal", f"{type(raised).__name__}: {raised}", details=trace, origin=origin)
