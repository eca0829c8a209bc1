"""Throughput of one exchange between two processes, and how long a barrier takes behind full queues.

    python -m benchmarks.exchange [--seconds 5] [--rows 65536] [--listen unix|tcp] [--edge forward|hash] [--work-us 0]
        [--target-ms 40]

One producer emits batches of 24-byte rows (three int64 columns) as fast as credit allows; consumers count them.
``--work-us`` is work for each batch received, in Python: it fills the queues, so that the barrier's wait shows.
``--target-ms`` is the target of buffer debloating, 0: none.
``--edge hash`` runs two producers and two consumers in two processes, as in a keyed job at parallelism 2.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import threading
import time
from multiprocessing.connection import Connection
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from tidegate.model.channel_events import Barrier, EndOfPartition
from tidegate.model.checkpoint import CheckpointOptions
from tidegate.model.deployment import InputDeployment, OutputDeployment, ProducerAddress
from tidegate.model.graph import Partitioner
from tidegate.model.ids import AttemptId, JobId, VertexId
from tidegate.model.program import KeySpec, OutputSpec
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.exchange.endpoint import DataEndpoint
from tidegate.taskmanager.exchange.exchange_settings import ExchangeSettings
from tidegate.taskmanager.machines.credit import WindowBounds

JOB, SOURCE, SINK = JobId("0" * 32), VertexId("1" * 32), VertexId("2" * 32)


def source_id(index: int) -> AttemptId:
    return AttemptId(JOB, SOURCE, index, 0)


def settings_of(options: argparse.Namespace) -> ExchangeSettings:
    bounds = WindowBounds(max_work_ms=options.target_ms / 2 if options.target_ms else math.inf)
    return ExchangeSettings(checksum_batches=not options.no_checksum, window=bounds, queue=bounds)


def produce(pipe: Connection, index: int, consumers: int, listen: str, options: argparse.Namespace) -> None:
    wake = threading.Event()
    settings = settings_of(options)
    endpoint = DataEndpoint(attempt=source_id(index), token="t", listen=listen, wakeup=wake.set, settings=settings)
    kind = Partitioner.HASH if options.edge == "hash" else Partitioner.REBALANCE
    spec = OutputSpec(0, 0, kind, None, KeySpec(("key",)))
    partition = endpoint.add_output(OutputDeployment(0, kind, tuple(range(consumers)), consumers, 128), spec)
    pipe.send(endpoint.start())
    keys = np.random.default_rng(index).integers(0, 10_000, options.rows)
    stamps = np.arange(options.rows)
    batch = ArrowBatch(pa.record_batch({"key": keys, "value": keys, "time": stamps}))
    pipe.recv()
    end, next_barrier, sent, number = time.monotonic() + options.seconds, time.monotonic() + 0.5, 0, 0
    while time.monotonic() < end:
        if not partition.is_available():
            wake.wait(0.1)
            wake.clear()
            continue
        partition.emit(batch)
        sent += options.rows
        if time.monotonic() >= next_barrier:
            number, next_barrier = number + 1, next_barrier + 0.2
            partition.broadcast(Barrier(number, time.time_ns() // 1000, CheckpointOptions("x")))
    partition.broadcast(EndOfPartition())
    while not partition.is_drained():
        wake.wait(0.1)
        wake.clear()
    pipe.send((sent, time.process_time()))
    endpoint.close()


def consume(pipe: Connection, index: int, addresses: list[str], listen: str, options: argparse.Namespace) -> None:
    wake = threading.Event()
    endpoint = DataEndpoint(
        attempt=AttemptId(JOB, SINK, index, 0),
        token="t",
        listen=listen,
        wakeup=wake.set,
        settings=settings_of(options),
    )
    attempts = tuple(source_id(at) for at in range(len(addresses)))
    gate = endpoint.add_inputs((InputDeployment(0, 0, Partitioner.HASH, attempts),))
    endpoint.start()
    for attempt, address in zip(attempts, addresses, strict=True):
        endpoint.connect(ProducerAddress(attempt, address))
    while not endpoint.all_connected():
        wake.wait(0.1)
    pipe.send("connected")
    rows, frames, ends, waits = 0, 0, 0, list[float]()
    began = time.monotonic()
    while ends < len(addresses):
        found = gate.poll()
        if found is None:
            wake.wait(0.1)
            wake.clear()
            continue
        item = found[1]
        if isinstance(item, ArrowBatch):
            rows, frames = rows + len(item), frames + 1
            until = time.perf_counter() + options.work_us / 1e6
            while time.perf_counter() < until:
                pass
        elif isinstance(item, Barrier):
            waits.append((time.time_ns() // 1000 - item.timestamp_ms) / 1000)
        elif isinstance(item, EndOfPartition):
            ends += 1
    pipe.send((rows, frames, time.monotonic() - began, waits, time.process_time()))
    endpoint.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rows", type=int, default=65536)
    parser.add_argument("--listen", choices=["unix", "tcp"], default="unix")
    parser.add_argument("--edge", choices=["forward", "hash"], default="forward")
    parser.add_argument("--work-us", type=float, default=0.0)
    parser.add_argument("--target-ms", type=float, default=40.0)
    parser.add_argument("--no-checksum", action="store_true")
    options = parser.parse_args()
    size = 2 if options.edge == "hash" else 1
    spawn = multiprocessing.get_context("spawn")
    with TemporaryDirectory(prefix="tg") as directory:
        listen = f"unix:{directory}" if options.listen == "unix" else "127.0.0.1"
        pipes = [spawn.Pipe() for _ in range(2 * size)]
        producers = [
            spawn.Process(target=produce, args=(pipes[at][1], at, size, listen, options)) for at in range(size)
        ]
        for process in producers:
            process.start()
        addresses = [pipes[at][0].recv() for at in range(size)]
        consumers = [
            spawn.Process(target=consume, args=(pipes[size + at][1], at, addresses, listen, options))
            for at in range(size)
        ]
        for process in consumers:
            process.start()
        for at in range(size):
            assert pipes[size + at][0].recv() == "connected"
        for at in range(size):
            pipes[at][0].send("go")
        results = [pipes[size + at][0].recv() for at in range(size)]
        sent = [pipes[at][0].recv() for at in range(size)]
        for process in [*producers, *consumers]:
            process.join()
    report(options, sent, results)


def report(
    options: argparse.Namespace,
    sent: list[tuple[int, float]],
    results: list[tuple[int, int, float, list[float], float]],
) -> None:
    rows = sum(result[0] for result in results)
    assert rows == sum(count for count, _ in sent), "rows were lost"
    took = max(result[2] for result in results)
    waits = np.array([wait for result in results for wait in result[3]] or [0.0])
    print(
        f"{options.edge} over {options.listen}, {options.rows}-row batches, work {options.work_us:.0f} us, target {options.target_ms:.0f} ms: "
        f"{rows / took / 1e6:.1f} M rows/s, {rows / sum(result[1] for result in results):.0f} rows a frame; "
        f"barrier p50 {np.percentile(waits, 50):.1f} ms, p95 {np.percentile(waits, 95):.1f} ms, "
        f"max {waits.max():.1f} ms; cpu s: producers {sum(cpu for _, cpu in sent):.1f}, "
        f"consumers {sum(result[4] for result in results):.1f}"
    )


if __name__ == "__main__":
    main()
