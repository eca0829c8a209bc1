"""A function that does not come back from its second record, or ends its process there, in the way that is asked for."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import time
from pathlib import Path

from tidegate.common import Types
from tidegate.datastream import StreamExecutionEnvironment

LEAKED_BYTES = 4 << 20
"""At a time, so that 400 MB in a second are leaked at most."""


def sleeps() -> None:
    time.sleep(3600)


def swallows_everything() -> None:
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.05)


def ignores_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        with contextlib.suppress(Exception):
            time.sleep(3600)


def spins_in_native_code() -> None:
    """Catastrophic backtracking: the regular expression never lets go of the interpreter."""
    re.match(r"(a+)+$", "a" * 100 + "b")


def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exits() -> None:
    os._exit(7)


def leaks() -> None:
    kept = []
    while True:
        kept.append(bytearray(b"x") * LEAKED_BYTES)
        time.sleep(0.01)  # a rate, at which whatever watches it can act


KINDS = {
    kind.__name__: kind
    for kind in (sleeps, swallows_everything, ignores_sigterm, spins_in_native_code, is_killed, exits, leaks)
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("mark", type=Path)
    arguments = parser.parse_args()
    kind, mark = arguments.kind, arguments.mark

    def stubborn(value: int) -> int:
        if value:
            mark.with_suffix(".new").write_text(str(os.getpid()))
            mark.with_suffix(".new").rename(mark)
            KINDS[kind]()
        return value

    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(1)
    environment.from_collection([0, 1], Types.LONG()).map(stubborn, Types.LONG()).uid("stubborn").print()
    environment.execute(kind)


if __name__ == "__main__":
    main()
