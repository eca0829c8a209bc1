"""Wraps gRPC handlers of any kind, so that each of their calls runs within a context manager.

request  ─▶ around ─▶ handler ─▶ answer          of a unary method
requests ─▶ around ─▶ handler ─▶ answer, ...     where client or server stream
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

_COUNTED = {False: "unary", True: "stream"}
"""The words in gRPC's names of handlers for one message and for a stream."""


@dataclass(slots=True)
class RpcCall:
    """One gRPC call as ``Around`` sees it. ``request``: a message or an iterator of messages. ``answer``: that of a unary method that has ended,
    otherwise ``None``."""

    request: Any
    answer: Any = None


Around: TypeAlias = Callable[[Any, Any], AbstractAsyncContextManager[RpcCall]]
"""Makes the context manager around one call from its request, or an iterator of them, and the gRPC context."""


def wrapped(handler: Any, around: Around) -> Any:
    """Returns a ``grpc.RpcMethodHandler`` of the same kind, each call of which runs within ``around``. What ``around`` raises on entry ends the call
    without the handler."""
    kind = f"{_COUNTED[handler.request_streaming]}_{_COUNTED[handler.response_streaming]}"
    behavior = getattr(handler, kind)

    async def answer(request: Any, context: Any) -> Any:
        async with around(request, context) as call:
            call.answer = await behavior(call.request, context)
        return call.answer

    async def answers(request: Any, context: Any) -> AsyncIterator[Any]:
        async with around(request, context) as call:
            found = behavior(call.request, context)
            if inspect.isawaitable(found):  # it writes its answers itself, or only refuses
                await found
                return
            async for one in found:
                yield one

    return handler._replace(**{kind: answers if handler.response_streaming else answer})
