"""BATCH execution mode: what becomes of the operators of a program whose sources end (Flink: ``StreamGraphGenerator.java``,
``BatchGroupedReduceOperator.java``).

| operator                                 | in BATCH mode                                                              |
|------------------------------------------|----------------------------------------------------------------------------|
| with keys, on single records             | its input is sorted by key, then time; timers fire at the end of their key |
| reduce, sum, min ... of a keyed stream,  | one result for each key                                                    |
| agg of columns                           |                                                                            |
| beside a broadcast stream                | the broadcast side is read first                                           |
| sources, assign_timestamps_and_watermarks| timestamps; no watermark but the last                                      |

Checkpoints are off: what sinks wrote is committed at the end of data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.functions.adapters import FinalReduce

if TYPE_CHECKING:
    from tidegate.datastream._graph.stream_graph import StreamNode

INPUTS = {
    "keyed_process": ("KEYED",),
    "keyed_co_process": ("KEYED", "KEYED"),
    "interval_join": ("KEYED", "KEYED"),
    "window": ("KEYED",),
    "keyed_broadcast_process": ("KEYED", "DIRECT"),
    "broadcast_process": ("HELD", "DIRECT"),
}
"""By kind of operator: how the runtime hands its inputs on (``tidegate.taskmanager.operators.batch.sorted_inputs``)."""

RUNTIME_MODE = "execution.runtime-mode"
CHECKPOINT_INTERVAL = "execution.checkpointing.interval"


def to_batch(node: StreamNode) -> None:
    """Changes kind and options of an operator."""
    if node.kind == "keyed_reduce":
        assert node.output_type is not None
        node.kind = "keyed_process"
        node.options = {"func": FinalReduce(node.options["func"], node.output_type)}
    if node.kind == "columnar_aggregate":
        node.options["is_final"] = True
    if node.kind in INPUTS:
        node.options["batch_inputs"] = INPUTS[node.kind]
    for name, option in node.options.items():
        if isinstance(option, WatermarkStrategy):
            node.options[name] = _without_watermarks(option)


def batch_configuration(configuration: Mapping[str, str]) -> dict[str, str]:
    """That of a job in BATCH mode: no checkpoints, and the mode by name where it was AUTOMATIC."""
    kept = {key: text for key, text in configuration.items() if key != CHECKPOINT_INTERVAL}
    return {**kept, RUNTIME_MODE: "BATCH"}


def _without_watermarks(strategy: WatermarkStrategy) -> WatermarkStrategy:
    return replace(strategy, max_out_of_orderness_ms=None, generator=None, idle_timeout_ms=None)
