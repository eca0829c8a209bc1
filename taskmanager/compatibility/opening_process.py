"""The process in which `tidegate savepoint check` opens user functions to find out which state they request.

    the command ── programs, operators, sys.path ──▶ this process: no network, no programs, nothing written, little memory
         ◀──────── for each operator its states, or why it could not be opened ─┘

Python's audit events refuse forbidden actions with ``PermissionError``. The kernel refuses connections too, where it lets a process enter an empty network
namespace (Linux). Memory is bounded by a resource limit, and time by the calling command.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from tidegate.records.pickling import dumps, loads

__all__ = ["LENGTH", "main"]

LENGTH = struct.Struct("<Q")
"""Format of the length before each answer."""
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
"""CLONE_NEWUSER and CLONE_NEWNET of Linux."""
_NETWORK, _PROGRAM = "connects to the network", "starts a program"
_REFUSED = {
    "os.exec": _PROGRAM,
    "os.fork": _PROGRAM,
    "os.forkpty": _PROGRAM,
    "os.kill": "signals a process",
    "os.posix_spawn": _PROGRAM,
    "os.spawn": _PROGRAM,
    "os.system": _PROGRAM,
    "socket.bind": "listens",
    "socket.connect": _NETWORK,
    "socket.getaddrinfo": _NETWORK,
    "socket.gethostbyname": _NETWORK,
    "socket.sendmsg": _NETWORK,
    "socket.sendto": _NETWORK,
    "subprocess.Popen": _PROGRAM,
}
"""Actions that are refused to functions: description by Python's audit event."""
_CHANGES = frozenset(
    {
        "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate", "os.utime",
        "shutil.rmtree",
    }
)  # fmt: skip
"""Audit events of changes to files."""
_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def main() -> None:
    """Reads the questions from standard input, and writes the answers to the original standard output."""
    _leave_the_network()
    most_bytes = int(sys.argv[1])
    path, questions = loads(sys.stdin.buffer.read())
    sys.path[:] = path
    sys.dont_write_bytecode = True
    from tidegate.taskmanager.compatibility.declared_states import declared_states

    answers = _keep_standard_output()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):  # of a system that has a lower one
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
    sys.addaudithook(_refuse)
    for program, operator_id in questions:
        try:
            spec = next(spec for spec in loads(program).operators if spec.operator_id == operator_id)
            answer = dumps(declared_states(spec, opened=True))
        except MemoryError:
            answer = dumps(f"it takes more than {most_bytes >> 20} MiB of memory")
        except BaseException as error:  # noqa: BLE001  (a function may call sys.exit())
            answer = dumps(_description_of(error))
        answers.write(LENGTH.pack(len(answer)) + answer)
        answers.flush()
    os._exit(0)  # a thread that a function started does not hold the process


def _keep_standard_output() -> BinaryIO:
    """Returns a file for the answers that writes to standard output, and redirects output of user code to the null device."""
    kept = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    return kept


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _REFUSED:
        raise PermissionError(f"it {_REFUSED[event]}")
    if event in _CHANGES or (event == "open" and _writes(*arguments)):
        raise PermissionError(f"it writes {arguments[0]}")
    if event == "sqlite3.connect" and arguments[0] != ":memory:":
        raise PermissionError(f"it opens the database {arguments[0]}")


def _writes(path: str | bytes | int, _: str | None, flags: int | None) -> bool:
    """Tells whether an audited call of ``open`` writes a file. Opening a file descriptor or the null device does not count."""
    return not isinstance(path, int) and path != os.devnull and bool((flags or 0) & _WRITE)


def _leave_the_network() -> None:
    """Enters a network namespace without interfaces. On other systems than Linux, and if the kernel refuses it, only the audit events protect."""
    user, group = os.getuid(), os.getgid()
    with suppress(OSError, AttributeError):
        unshare = ctypes.CDLL(None, use_errno=True).unshare
        if unshare(_NEW_NETWORK) != 0 and unshare(_NEW_USER | _NEW_NETWORK) == 0:
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
            Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def _description_of(error: BaseException) -> str:
    """Returns the first error of a chain of causes as one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, MemoryError):
        return "it needs more memory than the check allows"
    text = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, PermissionError) and text.startswith("it "):
        return text
    return f"{type(error).__name__}: {text}".rstrip(": ")


if __name__ == "__main__":
    main()
