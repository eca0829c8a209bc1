"""Handlers of gRPC with something around each of their calls, whatever kind they are.

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
"""How gRPC names what there is one of, and what is a stream."""


@dataclass(slots=True)
class RpcCall:
    """``request``: what the handler is given, a message or an iterator of messages. ``answer``: of a unary method that has ended, otherwise ``None``."""

    request: Any
    answer: Any = None


Around: TypeAlias = Callable[[Any, Any], AbstractAsyncContextManager[RpcCall]]
"""Is given a request, or an iterator of them, and the context of the call."""


def wrapped(handler: Any, around: Around) -> Any:
    """Returns a ``grpc.RpcMethodHandler`` of the same kind, each call of which is within ``around``. What that raises before it gives the call ends it without
    the handler."""
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
