"""A program that executes jobs one after the other, and tells after each which processes are its children. Run by Python alone.

many_executions.py all      jobs that fit, that fail, that need more slots, that run at the same time, and of another cluster
many_executions.py idle     one job, then nothing: the program waits for its end, or for being killed
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

import psutil

from tidegate.common import Configuration, WatermarkStrategy
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.datastream.connectors.number_seq import NumberSequenceSource

STARTED: set[int] = set()


def tell(what: str, began: float) -> None:
    """``new``: processes of clusters that were not there at the last line."""
    children = {child.pid for child in psutil.Process().children()}
    new = children - STARTED
    STARTED.update(new)
    ended = sorted(STARTED - children)
    print(json.dumps({"what": what, "new": len(new), "ended": len(ended), "s": time.monotonic() - began}), flush=True)


def environment(parallelism: int = 1, **settings: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for name, text in settings.items():
        configuration.set_string(name.replace("__", "-").replace("_", "."), text)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def numbers(env: StreamExecutionEnvironment, last: int) -> DataStream:
    return env.from_source(NumberSequenceSource(1, last), WatermarkStrategy.no_watermarks(), "numbers")


def count(what: str, parallelism: int = 1, **settings: str) -> None:
    began = time.monotonic()
    env = environment(parallelism, **settings)
    assert sorted(numbers(env, 10).map(lambda number: number + 1).execute_and_collect(what)) == list(range(2, 12))
    tell(what, began)


def run(what: str, parallelism: int = 1, **settings: str) -> None:
    began = time.monotonic()
    env = environment(parallelism, **settings)
    numbers(env, 3).map(lambda number: f"{what} {number}").print()
    env.execute(what)
    tell(what, began)


def fail() -> None:
    began = time.monotonic()
    env = environment()
    env.from_collection([0]).map(lambda number: 1 // number).print()
    failed = env.execute_async("fails").get_job_execution_result().exception()
    assert "ZeroDivisionError" in str(failed), failed
    tell("fails", began)


def endless(number: int) -> int:
    threading.Event().wait(0.01)
    return number


def two_at_once() -> None:
    began = time.monotonic()
    env = environment()
    numbers(env, 10**9).map(endless).filter(lambda _: False).print()
    first = env.execute_async("endless")
    count("beside it")
    assert str(first.get_job_status().result()).endswith("RUNNING"), first.get_job_status().result()
    first.cancel().result()
    assert first.get_job_execution_result().exception() is not None
    tell("cancelled", began)
    count("after it", parallelism=2)


def forked() -> None:
    """A process that was forked off has a cluster of its own, and its end leaves ours alone."""
    began = time.monotonic()
    if (child := os.fork()) == 0:
        sys.exit(0)  # what is registered for the end of the process runs in it, too
    assert os.waitpid(child, 0)[1] == 0
    tell("forked", began)


def kill_job_manager() -> None:
    """Of the first cluster."""
    found = [child for child in psutil.Process().children() if "jobmanager" in child.cmdline()]
    min(found, key=lambda child: child.create_time()).kill()


def main() -> None:
    run("first")
    if sys.argv[1] == "idle":
        sys.stdin.read()
        return
    run("second", restart__strategy_type="none")
    fail()
    count("after a failure")
    forked()
    run("wider", parallelism=3)
    run("narrow")
    two_at_once()
    run("other", taskmanager_slot_timeout="11 s")
    run("first again")
    kill_job_manager()
    run("after a lost JobManager")


if __name__ == "__main__":
    main()
