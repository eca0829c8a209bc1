"""A network of its own on this machine (``network_namespaces(7)``), joined with ours by a cable: how a cluster looks from elsewhere. Needs root, ``ip``,
``unshare`` and ``nsenter``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.e2e.waiting import wait_until

LIMIT_S = 60
_SCAN = """
import json, socket, sys
host, ports = sys.argv[1], json.loads(sys.argv[2])
found = {}
for port in ports:
    try:
        with socket.create_connection((host, port), timeout=10):
            found[port] = "connected"
    except OSError as error:
        found[port] = type(error).__name__
print(json.dumps(found))
"""


@dataclass(frozen=True)
class AnotherNetwork:
    """``pid``: of a process in it; ``our_address``: under which it reaches this machine."""

    pid: int
    our_address: str

    def scan(self, ports: Iterable[int]) -> dict[int, str]:
        """Returns what became of a connection from there to each port: `connected`, or the name of the error."""
        done = subprocess.run(
            ["nsenter", f"--net=/proc/{self.pid}/ns/net", sys.executable, "-c", _SCAN, self.our_address, json.dumps(list(ports))],
            capture_output=True, text=True, timeout=LIMIT_S, check=True,
        )  # fmt: skip
        return {int(port): outcome for port, outcome in json.loads(done.stdout).items()}


def missing() -> str:
    """Returns why there can be none here; empty where there can."""
    if os.geteuid() != 0:
        return "only root makes networks"
    lacking = [tool for tool in ("ip", "unshare", "nsenter") if shutil.which(tool) is None]
    if lacking:
        return f"{', '.join(lacking)} is not installed"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, timeout=LIMIT_S, check=False)
    return "" if tried.returncode == 0 else f"this system lets root make no networks: {tried.stderr.decode()}"


@contextmanager
def another_network() -> Iterator[AnotherNetwork]:
    """It ends, and the cable with it, with the process in it."""
    number = os.getpid()
    third, fourth = (
        number // 64 % 256,
        number % 64 * 4,
    )  # of a network of four addresses that no other process of these tests has
    ours, theirs = f"10.231.{third}.{fourth + 1}", f"10.231.{third}.{fourth + 2}"
    here, there = f"tg{number % 100_000_000}a", f"tg{number % 100_000_000}b"
    inside = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        own = os.stat("/proc/self/ns/net").st_ino
        wait_until(lambda: os.stat(f"/proc/{inside.pid}/ns/net").st_ino != own, LIMIT_S, "it has a network of its own")
        _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", str(inside.pid))
        _ip("address", "add", f"{ours}/30", "dev", here)
        _ip("link", "set", here, "up")
        enter = ("nsenter", f"--net=/proc/{inside.pid}/ns/net")
        _ip("address", "add", f"{theirs}/30", "dev", there, enter=enter)
        _ip("link", "set", there, "up", enter=enter)
        yield AnotherNetwork(inside.pid, ours)
    finally:
        inside.kill()
        inside.wait(LIMIT_S)
        assert inside.stdin is not None
        assert inside.stdout is not None
        inside.stdin.close()
        inside.stdout.close()


def _ip(*arguments: str, enter: tuple[str, ...] = ()) -> None:
    subprocess.run([*enter, "ip", *arguments], capture_output=True, timeout=LIMIT_S, check=True)
