"""What the recording of a subtask's input for `tidegate replay` costs: processor time of the same chain with a recorder and without, in turns.

    python -m benchmarks.recorded_input [--records 200000] [--rounds 7] [--batch 500]

The chain is a keyed count in state of single records (a key and a number, 16 bytes), without network and checkpoints, so that nothing else has a share
in it: a whole subtask pays a smaller part. One process, one thread; the recording is written to the local disk. A ratio is of one round, in which both
run one after the other, each first in every second round. `alone` is the recorder by itself, with the same batches, as a share of the chain without it: on a
busy machine the two runs of a round differ by more than the recorder takes, and this share does not.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa

from benchmarks.dropping import Dropping
from tests.unit.taskmanager.runtime.deploying import Deployer
from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.functions.state import ValueStateDescriptor
from tidegate.records.batch import ArrowBatch, from_wire, to_wire
from tidegate.taskmanager.recording.calls import RecordedKind
from tidegate.taskmanager.recording.recorder import Recorder
from tidegate.taskmanager.replaying.surroundings import ReplayTimers
from tidegate.taskmanager.runtime.assembly import AssembledChain, ChainParts, assemble_chain
from tidegate.taskmanager.runtime.clock import SystemClock
from tidegate.taskmanager.runtime.environment import SubtaskEnvironment
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters

KEYS = 1000
_BOUND = 1 << 30


class Count(KeyedProcessFunction):
    """Counts the records of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


def rows(first: int, number: int) -> pa.RecordBatch:
    index = np.arange(first, first + number)
    return pa.RecordBatch.from_arrays([pa.array(index % KEYS), pa.array(index)], names=["key", "number"])


def build() -> BuiltJob:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    stream = env.from_source(DataGeneratorSource(rows, 1), WatermarkStrategy.no_watermarks(), "rows")
    pairs = Types.TUPLE([Types.LONG(), Types.LONG()])
    keyed = stream.map(tuple, pairs).key_by(lambda pair: pair[0], Types.LONG())
    keyed.process(Count(), pairs).sink_to(Dropping())
    return env.build()


def take(job: BuiltJob, batches: list[ArrowBatch], directory: Path, *, is_recorded: bool) -> tuple[float, int]:
    """Returns the processor seconds of all batches, and the bytes of the recording."""
    recorder = Recorder(directory / "recording", _BOUND) if is_recorded else None
    counters = TaskCounters()
    chain = _chain(job, recorder, counters, directory).chain
    if recorder is not None:
        recorder.begin(0, 0, lambda: counters.records_out)
    gc.collect()  # what an earlier run has left is not this one's
    begun = time.process_time()
    for batch in batches:
        chain.process(batch, 0)
    written = 0 if recorder is None else sum(path.stat().st_size for path in recorder.segments)
    taken = time.process_time() - begun
    chain.close()
    if recorder is not None:
        recorder.close()
    return taken, written


def take_alone(batches: list[ArrowBatch], directory: Path) -> float:
    """Returns the processor seconds of the recorder without a chain."""
    recorder = Recorder(directory / "recording", _BOUND)
    recorder.begin(0, 0, lambda: 0)
    begun = time.process_time()
    for batch in batches:
        recorder.enter_with(RecordedKind.PROCESS, 0, to_wire(batch))
        recorder.leave()
    assert recorder.segments
    taken = time.process_time() - begun
    recorder.close()
    return taken


def _chain(job: BuiltJob, recorder: Recorder | None, counters: TaskCounters, directory: Path) -> AssembledChain:
    (vertex,) = (found for found in job.graph.vertices if not found.is_source)
    deployer = Deployer(job)
    clock = SystemClock()
    parts = ChainParts(
        deployment=deployer.deployment(vertex, deployer.attempt_id(vertex.vertex_id, 0)),
        environment=SubtaskEnvironment(listen="", temp_dir=str(directory), clock=clock),
        clock=clock,
        timers=ReplayTimers(),
        counters=counters,
        segments=None,
        run_async=lambda work, done: None,
        recorder=recorder,
    )
    made = assemble_chain(cloudpickle.loads(job.blobs[vertex.program]), {}, parts)
    made.chain.setup(made.contexts)
    made.chain.open()
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of recordings for `tidegate replay`.")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=500)
    args = parser.parse_args()
    job = build()
    data = [rows(first, args.batch) for first in range(0, args.records, args.batch)]
    batches = [from_wire(batch.rename_columns(["f0", "f1"])) for batch in data]
    ratios, shares = [], []
    for number in range(args.rounds + 1):
        taken: dict[bool, float] = {}
        written = 0
        for is_recorded in (number % 2 == 0, number % 2 == 1):
            with tempfile.TemporaryDirectory(prefix="tg-") as directory:
                taken[is_recorded], size = take(job, batches, Path(directory), is_recorded=is_recorded)
                written += size
        if number == 0:
            continue  # everything is loaded and compiled in the first round
        ratios.append(taken[True] / taken[False])
        with tempfile.TemporaryDirectory(prefix="tg-") as directory:
            shares.append(take_alone(batches, Path(directory)) / taken[False])
        print(
            f"{taken[False]:.3f} s, recorded {taken[True]:.3f} s: {ratios[-1]:.3f} ({written / args.records:.1f} bytes a record), alone {shares[-1]:.4f}",
            flush=True,
        )
    print(
        f"pieces of {args.batch}: median {statistics.median(ratios):.3f} of {len(ratios)}, {min(ratios):.3f} to {max(ratios):.3f}; "
        f"alone {statistics.median(shares):.4f}, {min(shares):.4f} to {max(shares):.4f}"
    )


if __name__ == "__main__":
    main()
