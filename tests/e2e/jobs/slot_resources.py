"""A stream through a slot sharing group with resources. Each subtask in it writes what its task of Spark has: CPUs, and the indices of its GPUs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.datastream import MapFunction, RuntimeContext, SlotSharingGroup, StreamExecutionEnvironment


class Seen(MapFunction):
    def __init__(self, output: str) -> None:
        self._output = output

    def open(self, runtime_context: RuntimeContext) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        gpus = [info.get_property("index") for info in runtime_context.get_external_resource_infos("gpu")]
        name = str(runtime_context.get_index_of_this_subtask())
        Path(self._output, name).write_text(json.dumps([context.cpus(), gpus]))

    def map(self, value: int) -> int:
        return value


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--cpus", type=float, required=True)
    parser.add_argument("--gpus", type=float, default=0)
    args = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    group = SlotSharingGroup.builder("models").set_cpu_cores(args.cpus).set_task_heap_memory_mb(1024)
    if args.gpus:
        group = group.set_external_resource("gpu", args.gpus)
    numbers = env.from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.map(Seen(args.output), Types.LONG()).slot_sharing_group(group.build()).print()
    env.execute("slot resources")


if __name__ == "__main__":
    main()
