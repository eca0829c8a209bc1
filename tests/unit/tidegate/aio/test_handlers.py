"""What is around the calls of a handler sees each of them, whatever kind it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from tidegate.aio.handlers import RpcCall, wrapped


async def several(*items: int) -> AsyncIterator[int]:
    for item in items:
        yield item


async def double(request: int, context: object) -> int:
    return 2 * request


async def count_up(request: int, context: object) -> AsyncIterator[int]:
    for item in range(request):
        yield item


async def add(requests: AsyncIterator[int], context: object) -> int:
    return sum([one async for one in requests])


async def double_all(requests: AsyncIterator[int], context: object) -> AsyncIterator[int]:
    async for one in requests:
        yield 2 * one


async def write_itself(requests: object, context: list[int]) -> None:
    context.append(7)


HANDLERS: dict[str, tuple[Any, Any, Any]] = {
    "unary_unary": (grpc.unary_unary_rpc_method_handler(double), 3, 6),
    "unary_stream": (grpc.unary_stream_rpc_method_handler(count_up), 3, [0, 1, 2]),
    "stream_unary": (grpc.stream_unary_rpc_method_handler(add), (1, 2), 3),
    "stream_stream": (grpc.stream_stream_rpc_method_handler(double_all), (1, 2), [2, 4]),
}


async def called(handler: Any, kind: str, given: Any, context: object = None) -> Any:
    found = getattr(handler, kind)(several(*given) if kind.startswith("stream") else given, context)
    return [one async for one in found] if kind.endswith("stream") else await found


@pytest.mark.parametrize("kind", HANDLERS)
async def test_it_sees_the_request_before_the_handler_and_the_answer_behind_it(kind: str) -> None:
    handler, given, expected = HANDLERS[kind]
    story: list[object] = []

    @asynccontextmanager
    async def around(request: Any, context: object) -> AsyncIterator[RpcCall]:
        story.append(f"begins in {context}")
        call = RpcCall(request)
        yield call
        story.append(call.answer)

    found = wrapped(handler, around)
    assert (found.request_streaming, found.response_streaming) == (
        handler.request_streaming,
        handler.response_streaming,
    )
    assert await called(found, kind, given, "a context") == expected
    assert story == ["begins in a context", None if kind.endswith("stream") else expected]


@pytest.mark.parametrize("kind", HANDLERS)
async def test_what_it_raises_ends_the_call_without_the_handler(kind: str) -> None:
    @asynccontextmanager
    async def around(request: Any, context: object) -> AsyncIterator[RpcCall]:
        raise PermissionError
        yield RpcCall(request)

    handler, given, _ = HANDLERS[kind]
    refusing = handler._replace(**{kind: lambda *_: pytest.fail("it was asked")})
    with pytest.raises(PermissionError):
        await called(wrapped(refusing, around), kind, given)


@pytest.mark.parametrize("kind", HANDLERS)
async def test_it_may_give_the_handler_another_request(kind: str) -> None:
    @asynccontextmanager
    async def around(request: Any, context: object) -> AsyncIterator[RpcCall]:
        yield RpcCall(several(5) if kind.startswith("stream") else 1)

    handler, given, _ = HANDLERS[kind]
    assert await called(wrapped(handler, around), kind, given) in (2, [0], 5, [10])


async def test_a_handler_may_write_its_answers_itself() -> None:
    ended: list[bool] = []

    @asynccontextmanager
    async def around(request: Any, context: object) -> AsyncIterator[RpcCall]:
        yield RpcCall(request)
        ended.append(True)

    written: list[int] = []
    handler = wrapped(grpc.stream_stream_rpc_method_handler(write_itself), around)
    assert await called(handler, "stream_stream", (1,), written) == []
    assert (written, ended) == ([7], [True])


async def test_it_sees_the_end_of_a_stream_whose_reader_leaves() -> None:
    ended: list[bool] = []

    @asynccontextmanager
    async def around(request: Any, context: object) -> AsyncIterator[RpcCall]:
        try:
            yield RpcCall(request)
        finally:
            ended.append(True)

    stream = wrapped(HANDLERS["unary_stream"][0], around).unary_stream(3, None)
    assert await anext(stream) == 0
    await stream.aclose()
    assert ended == [True]
