"""A TaskManager refuses messages that are too long: by their length what none may be, and by their method what only deployments may be."""

from __future__ import annotations

from typing import Any

import grpc.aio
import pytest

from tidegate.aio.rpc import CHANNEL_OPTIONS, start_server
from tidegate.model.configuration import Configuration
from tidegate.pb import common_pb2, taskmanager_pb2
from tidegate.pb.taskmanager_pb2_grpc import TaskManagerServicer, TaskManagerStub, add_TaskManagerServicer_to_server
from tidegate.taskmanager.service.endpoint import request_limits


class _Accepts(TaskManagerServicer):
    async def SubmitTask(self, request: taskmanager_pb2.SubmitTaskRequest, context: object) -> common_pb2.Ack:
        return common_pb2.Ack()

    async def FreeSlot(self, request: taskmanager_pb2.FreeSlotRequest, context: object) -> common_pb2.Ack:
        return common_pb2.Ack()


ACCEPTS: Any = _Accepts
"""The methods that are asked for are there."""


async def test_only_what_carries_state_may_be_long() -> None:
    limits = request_limits(Configuration.from_strings({"tidegate.rpc.max-message-size": "8 mb"}))
    server, port = await start_server(
        "127.0.0.1", 0, lambda made: add_TaskManagerServicer_to_server(ACCEPTS(), made), "TaskManager", limits=limits
    )
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", CHANNEL_OPTIONS) as channel:
            stub: Any = TaskManagerStub(channel)
            await stub.SubmitTask(taskmanager_pb2.SubmitTaskRequest(deployment=bytes(7 << 20)))
            for call, request, code in (
                (stub.SubmitTask, taskmanager_pb2.SubmitTaskRequest(deployment=bytes(9 << 20)), "RESOURCE_EXHAUSTED"),
                (stub.FreeSlot, taskmanager_pb2.FreeSlotRequest(generation="x" * (2 << 20)), "INVALID_ARGUMENT"),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call(request)
                assert refused.value.code().name == code
    finally:
        await server.stop(0)
