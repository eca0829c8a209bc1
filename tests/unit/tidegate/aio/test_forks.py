"""Programs are started while calls are under way, as PySpark starts its JVM in a client: by a fork with a function of Python in it."""

from __future__ import annotations

import os
import subprocess
import sys

FORKS = 150
"""With gRPC's own handlers of a fork 14 of 300 such children ended by a signal; all of 150 live with a chance of one in a thousand."""

PROGRAM = f"""
import asyncio, signal, subprocess, threading
import tidegate
from grpc import GenericRpcHandler, aio, unary_unary_rpc_method_handler

class Echo(GenericRpcHandler):
    def service(self, details):
        async def echo(request, context):
            return request
        return unary_unary_rpc_method_handler(echo)

over, calls = threading.Event(), threading.Event()

async def call():
    server = aio.server()
    server.add_generic_rpc_handlers((Echo(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{{port}}") as channel:
        echo = channel.unary_unary("/echo/echo")
        while not over.is_set():
            await echo(b"")
            calls.set()
    await server.stop(None)

thread = threading.Thread(target=lambda: asyncio.run(call()))
thread.start()
assert calls.wait(30)
codes = [
    subprocess.run(["true"], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)).returncode
    for _ in range({FORKS})
]
over.set()
thread.join()
print(sorted(set(codes)))
"""


def test_a_program_that_is_started_beside_calls_is_not_ended_by_handlers_of_the_fork() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "[0]\n", done.stderr
