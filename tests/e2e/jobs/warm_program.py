"""A program for the warm cluster: prints and ends, or leaves a job running.

warm_program.py run                  prints a line by its job, and which TaskManager ran it
warm_program.py left [killed]        leaves a job with a completed checkpoint running, and ends, or waits to be killed
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import psutil

from tidegate.common import WatermarkStrategy
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.number_seq import NumberSequenceSource


def task_manager(number: int) -> str:
    """The pid of the TaskManager that runs this function."""
    found = [parent.pid for parent in psutil.Process().parents() if "taskmanager" in parent.cmdline()]
    return f"{number} by {found[0]} as {os.getuid()}"


def slow(number: int) -> int:
    threading.Event().wait(0.01)
    return number


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    if sys.argv[1] == "run":
        numbers = env.from_source(NumberSequenceSource(7, 7), WatermarkStrategy.no_watermarks(), "numbers")
        numbers.map(task_manager).print()
        env.execute("prints")
        print("over", flush=True)
        return
    env.enable_checkpointing(100)
    numbers = env.from_source(NumberSequenceSource(1, 10**9), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(slow).filter(lambda _: False).print()
    client = env.execute_async("left")
    while not has_checkpoint(str(client.get_job_id())):
        threading.Event().wait(0.05)
    print("left", client.get_job_id(), flush=True)
    if "killed" in sys.argv:
        sys.stdin.read()


def has_checkpoint(job_id: str) -> bool:
    return any(Path(os.environ["TIDEGATE_HOME"]).glob(f"clusters/local-*/checkpoints/{job_id}/chk-*/_metadata"))


if __name__ == "__main__":
    main()
