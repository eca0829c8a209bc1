"""A kernel of Jupyter, asked as a frontend asks it: cells in, outputs out."""

from __future__ import annotations

import os
import queue
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

LIMIT_S = 240.0
"""How long a cell may take: the first one starts a cluster beside other tests."""


@dataclass
class Output:
    """What a cell has shown. ``displays``: HTML by id of the display, in the order of its updates; ``results``: HTML or text of the last expression."""

    displays: dict[str, list[str]] = field(default_factory=dict)
    results: list[str] = field(default_factory=list)
    text: str = ""
    errors: str = ""
    error_lines: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def last_views(self) -> list[str]:
        """What each display shows in the end."""
        return [shown[-1] for shown in self.displays.values()]

    def take(self, message: dict[str, Any]) -> None:
        """Takes a message of the kernel."""
        kind, content = message["msg_type"], message["content"]
        if kind in ("display_data", "update_display_data"):
            data = content["data"]
            name = content.get("transient", {}).get("display_id", str(len(self.displays)))
            if kind == "display_data" or name in self.displays:  # the view of another cell's job is updated meanwhile
                self.displays.setdefault(name, []).append(data.get("text/html", data.get("text/plain", "")))
        elif kind == "execute_result":
            self.results.append(content["data"].get("text/html", content["data"]["text/plain"]))
        elif kind == "stream" and content["name"] == "stdout":
            self.text += content["text"]
        elif kind == "stream":
            self.errors += content["text"]
        elif kind == "error":
            self.error, self.error_lines = content["ename"], "\n".join(content["traceback"]).splitlines()


class Kernel:
    """Runs in ``directory``. ``close`` ends it with its cluster."""

    def __init__(self, directory: Path) -> None:
        spec = KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], language="python"
        )
        self._manager = KernelManager()
        self._manager._kernel_spec = spec
        environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(directory), "IPYTHONDIR": str(directory / "ipython")}
        with (directory / "kernel.log").open("wb") as log:
            self._manager.start_kernel(env=environment, cwd=str(directory), stdout=log, stderr=log)
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(LIMIT_S)

    def start(self, code: str, cell: str = "") -> str:
        """Sends a cell and returns the id of the request. ``cell``: the cell's id, which frontends send with it."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        message = self._client.session.msg("execute_request", content, metadata={"cellId": cell} if cell else {})
        self._client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def messages(self, until: float) -> Any:
        """Yields what the kernel says. Raises ``AssertionError`` at the monotonic time ``until``."""
        while True:
            left = until - time.monotonic()
            assert left > 0, "the kernel says nothing more"
            try:
                yield self._client.get_iopub_msg(timeout=left)
            except queue.Empty:
                continue

    def finish(self, request: str, output: Output | None = None) -> Output:
        """Returns what a cell shows until it has ended."""
        output = output or Output()
        for message in self.messages(time.monotonic() + LIMIT_S):
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return output
            output.take(message)
        raise AssertionError("unreachable")

    def run(self, code: str, cell: str = "") -> Output:
        """Runs a cell to its end."""
        return self.finish(self.start(code, cell))

    def watch(self, request: str, shown: str) -> Output:
        """Returns what a cell has shown once a display or a text holds ``shown``; it need not have ended."""
        output = Output()
        for message in self.messages(time.monotonic() + LIMIT_S):
            if message["parent_header"].get("msg_id") == request:
                output.take(message)
                if any(shown in html for views in output.displays.values() for html in views) or shown in output.text:
                    return output
        raise AssertionError("unreachable")

    def interrupt(self) -> None:
        """Interrupts the cell that runs."""
        self._manager.interrupt_kernel()

    def close(self) -> None:
        """Ends the kernel, and the cluster of its jobs with it."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=False)
        self._manager.cleanup_resources()
