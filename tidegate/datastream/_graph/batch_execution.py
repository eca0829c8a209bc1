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

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.spark.source import SparkSource
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream._graph.stream_node import StreamNode
from tidegate.functions.adapters import FinalReduce
from tidegate.model.configuration import Configuration
from tidegate.model.errors import InvalidJob
from tidegate.model.options import ExecutionOptions
from tidegate.model.options.job import BatchShuffleMode

_log = logging.getLogger(__name__)

INPUTS = {
    "keyed_process": ("KEYED",),
    "keyed_co_process": ("KEYED", "KEYED"),
    "interval_join": ("KEYED", "KEYED"),
    "window": ("KEYED",),
    "cep": ("KEYED",),
    "keyed_broadcast_process": ("KEYED", "DIRECT"),
    "broadcast_process": ("HELD", "DIRECT"),
}
"""How the runtime reads the inputs of each kind of operator in BATCH mode (``tidegate.taskmanager.operators.batch.sorted_inputs``)."""

RUNTIME_MODE = "execution.runtime-mode"
CHECKPOINT_INTERVAL = "execution.checkpointing.interval"


def to_batch(node: StreamNode) -> None:
    """Changes kind and options of an operator for BATCH mode."""
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


def batch_configuration(configuration: Mapping[str, str], nodes: Iterable[StreamNode]) -> dict[str, str]:
    """Returns the configuration of a BATCH job: without checkpoints, the mode named where it was AUTOMATIC, and with blocking exchanges unless an
    operator must run at the same time as another. Raises ``InvalidJob`` when blocking exchanges were configured nevertheless."""
    kept = {key: text for key, text in configuration.items() if key != CHECKPOINT_INTERVAL}
    option = ExecutionOptions.BATCH_SHUFFLE_MODE
    mode = Configuration.from_strings(configuration).get(option)
    why = next(filter(None, map(_why_pipelined, nodes)), "")
    if why and mode is BatchShuffleMode.ALL_EXCHANGES_BLOCKING:
        if option.key in configuration:
            raise InvalidJob(
                f"{option.key} is {mode.value}, but {why}; leave the option out, and all subtasks run at once"
            )
        _log.info("all subtasks of this batch job run at once: %s", why)
        mode = BatchShuffleMode.ALL_EXCHANGES_PIPELINED
    return {**kept, RUNTIME_MODE: "BATCH", option.key: mode.value}


def _why_pipelined(node: StreamNode) -> str:
    """Returns why an operator cannot wait until its producers have finished; empty if it can."""
    source = node.options.get("source")
    while isinstance(source, ThrottledSource):
        source = source.inner
    if node.kind == "enumerated_source":
        return f"the readers of {node.name!r} get their splits from an enumerator that runs at the same time"
    if isinstance(source, SparkSource) and not source.materialize:
        return f"the rows of {node.name!r} come straight from Spark (from_spark with materialize=True can wait)"
    return ""


def _without_watermarks(strategy: WatermarkStrategy) -> WatermarkStrategy:
    return replace(strategy, max_out_of_orderness_ms=None, generator=None, idle_timeout_ms=None)
