"""Kafka to Kafka exactly once, beside Flink and Spark on the same broker: ``python -m benchmarks.kafka``.

Throughput: a topic that is full is copied at parallelism 1, with a checkpoint a second. Between 20 % and 90 % of the records
the processor time of the system's processes is taken (without the broker), so the rate for each core does not depend on what
else the machine does; the rate by the clock does. Latency: records are produced at a calm rate, each with its time, and read
back by a ``read_committed`` and by a ``read_uncommitted`` consumer, with a checkpoint every 100 ms.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks import kafka_rivals, plots
from benchmarks.percentiles import percentiles
from tests.servers.kafka_broker import KafkaBroker

PARTITIONS = 2
SIZES = (100, 1000)
INTERVAL_MS, CALM_INTERVAL_MS = 1000, 100
CALM_RATE = 1000
LATENCY_S = 120
"""With 800 checkpoints behind the first third: of a fifth as many, p99 is what a single wait for the disk made it."""
LIMIT_S = 600.0
Copy = Callable[[str, str, str, int], AbstractContextManager[int]]
SYSTEMS: dict[str, Copy] = {
    "tidegate": kafka_rivals.tidegate,
    "tidegate, open transactions": kafka_rivals.tidegate_open,
    "Flink": kafka_rivals.flink,
    "Spark": kafka_rivals.spark,
}


@dataclass
class Figures:
    system: str
    rates: dict[int, float] = field(default_factory=dict)
    """Records a second by the clock, by size of record."""
    rates_per_core: dict[int, float] = field(default_factory=dict)
    latencies_ms: list[float] = field(default_factory=list)
    """Until readers of committed records have them."""
    uncommitted_ms: list[float] = field(default_factory=list)
    """Until readers of uncommitted records do."""
    missing: str = ""
    """Why there are none."""


@click.command(help=__doc__)
@click.option("--megabytes", default=400, show_default=True, help="In the topic to be copied, of each size of record.")
@click.option("--seconds", default=LATENCY_S, show_default=True, help="Of the latency's measurement.")
@click.option("--only", multiple=True, type=click.Choice(list(SYSTEMS)), help="Systems; may be repeated.")
def main(megabytes: int, seconds: int, only: tuple[str, ...]) -> None:
    report(Console(), Path(__file__).resolve().parent / "results", megabytes, seconds, only or tuple(SYSTEMS))


def report(
    console: Console,
    results: Path,
    megabytes: int = 400,
    seconds: int = LATENCY_S,
    systems: tuple[str, ...] = tuple(SYSTEMS),
) -> None:
    with KafkaBroker(transaction_max_timeout_ms="900000") as broker:
        found = measure(broker, megabytes, seconds, systems)
    table = Table(
        "Kafka to Kafka", *(f"{size} B: {what}" for size in SIZES for what in ("k/s", "MB/s", "k/s per core"))
    )
    for title in ("p50 ms", "p99 ms", "uncommitted p50 ms", "p99 ms"):
        table.add_column(title)
    for one in found:
        cells = [one.system]
        for size in SIZES:
            rate, core = one.rates.get(size), one.rates_per_core.get(size)
            cells += ["-"] * 3 if rate is None or core is None else _rate_cells(rate, core, size)
        table.add_row(*cells, *percentiles(one.latencies_ms, (50, 99)), *percentiles(one.uncommitted_ms, (50, 99)))
        if one.missing:
            console.print(f"{one.system}: {one.missing}")
    console.print(table)
    results.mkdir(exist_ok=True)
    (results / "kafka.json").write_text(json.dumps([asdict(one) for one in found], indent=1))
    plots.kafka([one for one in found if one.rates], results / "kafka.png")


def measure(broker: KafkaBroker, megabytes: int, seconds: int, systems: tuple[str, ...]) -> list[Figures]:
    counts = {size: megabytes * 1_000_000 // size for size in SIZES}
    for size, count in counts.items():
        _fill(broker, f"in-{size}", size, count)
    found = []
    for name in systems:
        figures = Figures(name)
        try:
            for size, count in counts.items():
                rate, core = _throughput(broker, SYSTEMS[name], f"in-{size}", f"out-{size}-{_slug(name)}", count)
                figures.rates[size], figures.rates_per_core[size] = rate, core
                print(f"{name}, {size} B: {rate:,.0f} records/s, {core:,.0f} for each core", flush=True)
            figures.latencies_ms, figures.uncommitted_ms = _latencies(broker, SYSTEMS[name], _slug(name), seconds)
        except (kafka_rivals.NotThere, TimeoutError) as error:
            figures.missing = str(error)
        found.append(figures)
    return found


def _slug(name: str) -> str:
    """For the names of topics."""
    return name.replace(", ", "-").replace(" ", "-")


def _rate_cells(rate: float, core: float, size: int) -> list[str]:
    return [f"{rate / 1e3:.0f}", f"{rate * size / 1e6:.0f}", f"{core / 1e3:.0f}"]


def _fill(broker: KafkaBroker, topic: str, size: int, count: int) -> None:
    broker.create_topic(topic, PARTITIONS)
    client = _producer(broker)
    for start in range(0, count, 500):
        piece = [{"value": b"%0*d" % (size, n)} for n in range(start, min(start + 500, count))]
        while len(client) > 400_000:
            client.poll(0.05)
        client.produce_batch(topic, piece)
        client.poll(0)
    assert client.flush(300) == 0


def _producer(broker: KafkaBroker) -> Any:
    from confluent_kafka import Producer

    settings = {"enable.idempotence": True, "linger.ms": 5, "queue.buffering.max.messages": 500_000, "log_level": 0}
    return Producer({"bootstrap.servers": broker.servers, **settings})


def _throughput(broker: KafkaBroker, copy: Copy, source: str, sink: str, count: int) -> tuple[float, float]:
    """(records a second, records a second of processor time)"""
    broker.create_topic(sink, PARTITIONS)
    with copy(broker.servers, source, sink, INTERVAL_MS) as pid, _ends(broker, sink) as copied:
        marks = []
        for share in (0.2, 0.9):
            _wait(lambda share=share: copied() >= share * count, f"{share:.0%} of {count} records in {sink}", pid)  # type: ignore[misc]
            marks.append((copied(), time.monotonic(), processor_s(pid)))
    (rows, at, used), (last_rows, last_at, last_used) = marks
    if last_rows <= rows or last_used <= used:
        raise kafka_rivals.NotThere(
            f"{count} records were copied between two looks: measure more of them (--megabytes)"
        )
    return (last_rows - rows) / (last_at - at), (last_rows - rows) / (last_used - used)


@contextlib.contextmanager
def _ends(broker: KafkaBroker, topic: str) -> Iterator[Callable[[], int]]:
    """How much there is in a topic (transactions' own records, two or so a second, included)."""
    from confluent_kafka import Consumer, TopicPartition

    client = Consumer({"bootstrap.servers": broker.servers, "group.id": "bench", "log_level": 0})
    try:
        yield lambda: sum(
            client.get_watermark_offsets(TopicPartition(topic, n), timeout=30)[1] for n in range(PARTITIONS)
        )
    finally:
        client.close()


def _latencies(broker: KafkaBroker, copy: Copy, name: str, seconds: int) -> tuple[list[float], list[float]]:
    """From the moment of ``produce`` to the moment a consumer of committed, and of uncommitted, records has the copy, in ms; the first
    third is left out."""
    source, sink = f"calm-in-{name}", f"calm-out-{name}"
    broker.create_topic(source, PARTITIONS)
    broker.create_topic(sink, PARTITIONS)
    stopped = threading.Event()
    feeder = threading.Thread(target=_feed, args=(_producer(broker), source, stopped), daemon=True)
    with _Reader(broker, sink, "read_committed") as committed, _Reader(broker, sink, "read_uncommitted") as uncommitted:
        try:
            with copy(broker.servers, source, sink, CALM_INTERVAL_MS) as pid:
                feeder.start()
                _wait(lambda: committed.count > 0, f"records in {sink}", pid)
                time.sleep(seconds / 3)
                begun = time.time()
                time.sleep(seconds - seconds / 3)
        finally:
            stopped.set()
            feeder.join(10)
        return committed.since(begun), uncommitted.since(begun)


class _Reader:
    """Reads in a thread of its own, and notes how long each record took."""

    def __init__(self, broker: KafkaBroker, topic: str, isolation: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        settings = {"bootstrap.servers": broker.servers, "group.id": "bench", "log_level": 0, "fetch.wait.max.ms": 10}
        self._client = Consumer({**settings, "isolation.level": isolation})
        self._client.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._times: list[tuple[float, float]] = []

    @property
    def count(self) -> int:
        return len(self._times)

    def since(self, begun: float) -> list[float]:
        return [latency_ms for at, latency_ms in self._times if at >= begun]

    def __enter__(self) -> _Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)
        self._client.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            messages = self._client.consume(1000, 0.005)
            now = time.time()
            self._times += [(now, (now - float(one.value() or 0)) * 1000) for one in messages if not one.error()]


def _feed(client: Any, topic: str, stopped: threading.Event) -> None:
    while not stopped.wait(1 / CALM_RATE):
        client.produce(topic, f"{time.time():.6f}".encode())
        client.poll(0)
    client.flush(10)


def _wait(condition: Callable[[], bool], what: str, pid: int) -> None:
    limit = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > limit or not psutil.pid_exists(pid) or _is_over(pid):
            raise TimeoutError(f"did not come: {what}")
        time.sleep(0.05)


def _is_over(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    return True


def processor_s(pid: int) -> float:
    """Of a process and all its living descendants."""
    root = psutil.Process(pid)
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


if __name__ == "__main__":
    main()
