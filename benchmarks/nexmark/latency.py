"""How long an event of Nexmark takes to its result, beside Flink SQL: ``python -m benchmarks.nexmark.latency``.

A producer writes the events as JSON to a topic of a local broker, at a fixed rate, and the query writes its rows to another one: ``kafka`` as source and
sink, at least once, parallelism 2, a checkpoint every second, no mini-batches (they wait by design). Systems run one after the other on clusters that are
up; Flink with its own time for unfilled buffers, 100 ms, and with tidegate's, 5 ms. A latency is the time at which the broker took a result, less the time
at which it took the event that made it (``causes.py``): a window's is the event with which the watermark passes its end in both partitions. The first
seconds are left out. All results are compared with those that the events must give, and with each other in number.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import click
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import BenchCluster
from benchmarks.flink_cluster import FlinkCluster
from benchmarks.kafka import processor_s
from benchmarks.nexmark import live
from benchmarks.nexmark.causes import KEYS, causes_of, key_of, match
from benchmarks.nexmark.statements import QUERIES, tables_of
from benchmarks.nexmark.systems import INTERVAL_MS, PARALLELISM
from benchmarks.percentiles import percentiles
from benchmarks.waiting import wait_until
from tests.servers.jars import fetched
from tests.servers.kafka_broker import KafkaBroker
from tidegate.cli.executor import ClusterExecutor
from tidegate.datastream._graph.executor import installed
from tidegate.table import EnvironmentSettings, TableEnvironment

HERE = Path(__file__).resolve().parent.parent
LIMIT_S = 120.0
"""For a start, an end, and for results behind the last event."""
_EVENTS = {"q0": 1, "q20": 1, "q5": 3, "q7": 6}
"""How many times the seconds a query has: q5 has a window every two seconds, q7 every ten."""
_BID = "auction BIGINT, bidder BIGINT, price BIGINT"
COLUMNS = {
    "q0": f"{_BID}, `dateTime` TIMESTAMP(3), extra STRING",
    "q5": "auction BIGINT, num BIGINT",
    "q7": "auction BIGINT, price BIGINT, bidder BIGINT, `dateTime` TIMESTAMP(3), extra STRING",
    "q20": f"{_BID}, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING, itemName STRING, description STRING, initialBid BIGINT, "
    "reserve BIGINT, since TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, more STRING",
}
"""Of the tables of results."""


@dataclass
class OfSystem:
    """All runs of a query in a system."""

    latencies_ms: list[float] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    """Of each run."""
    processors: list[float] = field(default_factory=list)
    """How many of them its TaskManager used while events came, of each run."""
    missing: int = 0
    unexpected: int = 0

    def add(self, run: OfSystem) -> None:
        self.latencies_ms += run.latencies_ms
        self.results += run.results
        self.processors += run.processors
        self.missing += run.missing
        self.unexpected += run.unexpected


class System(Protocol):
    rest_port: int
    pid: int
    """Of its TaskManager."""

    def submit(self, statements: list[str], insert: str) -> str:
        """Starts a job, and returns its id."""
        ...


class Tidegate:
    def __init__(self, cluster: BenchCluster) -> None:
        self._cluster, self.rest_port, self.pid = cluster, cluster.rest_port, cluster.task_manager_pid

    def submit(self, statements: list[str], insert: str) -> str:
        configuration = {
            "parallelism.default": str(PARALLELISM),
            "execution.checkpointing.interval": f"{INTERVAL_MS} ms",
        }
        with installed(ClusterExecutor(self._cluster.client, names_async=False), configuration):
            t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
            t_env.get_config().set("table.local-time-zone", "UTC")
            for statement in statements:
                t_env.execute_sql(statement)
            client = t_env.execute_sql(insert).get_job_client()
        assert client is not None
        return str(client.get_job_id())


class Flink:
    def __init__(self, cluster: FlinkCluster, buffer_timeout_ms: int) -> None:
        self.rest_port, self.pid = cluster.rest_port, cluster.task_manager_pid
        self._session = cluster.session(PARALLELISM, INTERVAL_MS)
        self._settings = {"execution.buffer-timeout.interval": f"{buffer_timeout_ms} ms"}

    def submit(self, statements: list[str], insert: str) -> str:
        return str(self._session.order(settings=self._settings, statements=statements, query=insert)["job"])


def run(broker: KafkaBroker, system: System, query: str, name: str, stream: live.Stream, warm_s: float) -> OfSystem:
    """One run with topics of its own. Raises ``RuntimeError`` when the job does not start, or fails."""
    source, sink = f"events-{name}", f"results-{name}"
    for topic in (source, sink):
        live.create_topic(broker, topic)
    kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{broker.servers}', 'format' = 'json'"
    statements = [
        *tables_of(f"{kafka}, 'topic' = '{source}', 'scan.startup.mode' = 'earliest-offset'"),
        f"CREATE TEMPORARY TABLE results ({COLUMNS[query]}) WITH ({kafka}, 'topic' = '{sink}')",
    ]
    job_id = system.submit(statements, f"INSERT INTO results {QUERIES[query]}")
    try:
        wait_until(lambda: _checkpoints(system, job_id) > 0, f"the first checkpoint of {query}", LIMIT_S)
        used = processor_s(system.pid)
        late_s = live.produce(broker, source, stream)
        used = (processor_s(system.pid) - used) * stream.rate / len(stream.messages)
        arrivals = live.arrivals_ms(broker, source, len(stream.messages))
        causes = causes_of(query, stream.table, arrivals, live.PARTITIONS)
        try:
            wait_until(lambda: live.count(broker, sink) >= len(causes), f"{len(causes)} results", LIMIT_S)
        except RuntimeError as error:
            print(error)
    finally:
        _cancel(system, job_id)
    rows = live.results(broker, sink)
    found = match(causes, ((key_of(query, row), at) for row, at in rows), float(arrivals[0]) + warm_s * 1000)
    print(f"{name}: {len(rows)} results of {len(causes)}, the producer was late by {late_s * 1000:.0f} ms at most")
    return OfSystem(found.latencies_ms, [len(rows)], [used], found.missing, found.unexpected)


def _checkpoints(system: System, job_id: str) -> int:
    state = _rest(system, f"/jobs/{job_id}")["state"]
    if state in ("FAILED", "CANCELED", "FINISHED"):
        raise RuntimeError(f"job {job_id} is {state}")
    return int(_rest(system, f"/jobs/{job_id}/checkpoints")["counts"]["completed"])


def _cancel(system: System, job_id: str) -> None:
    ended = ("CANCELED", "FAILED", "FINISHED")
    if _rest(system, f"/jobs/{job_id}")["state"] not in ended:
        _rest(system, f"/jobs/{job_id}?mode=cancel", "PATCH")
    wait_until(lambda: _rest(system, f"/jobs/{job_id}")["state"] in ended, f"the end of job {job_id}", LIMIT_S)


def _rest(system: System, path: str, method: str = "GET") -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{system.rest_port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read() or b"{}")


def table_of(found: Mapping[str, Mapping[str, OfSystem]]) -> Table:
    title = "processors: used by the TaskManager while events came; measured: results behind the warm-up"
    head = ("query", "system", "results", "measured", "p50 ms", "p99 ms", "max ms", "missing", "more", "processors")
    table = Table(*head, title=title)
    for query, systems in found.items():
        for name, one in systems.items():
            results = ", ".join(map(str, one.results))
            cells = percentiles(one.latencies_ms, (50, 99, 100))
            counts = map(str, (one.missing, one.unexpected))
            processors = ", ".join(f"{used:.2f}" for used in one.processors)
            table.add_row(query, name, results, str(len(one.latencies_ms)), *cells, *counts, processors)
    return table


def chosen(queries: str) -> tuple[str, ...]:
    """Raises ``BadParameter`` for a query that is not measured here."""
    names = tuple(queries.split(","))
    if strange := sorted(set(names) - set(KEYS)):
        raise click.BadParameter(f"{', '.join(strange)} is not measured; {', '.join(KEYS)} are", param_hint="--queries")
    return names


@click.command(help=__doc__)
@click.option("--queries", default=",".join(KEYS), show_default=True, help="By comma.")
@click.option("--rate", default=10_000, show_default=True, help="Events a second.")
@click.option(
    "--seconds", default=20, show_default=True, help="Measured of q0 and q20; q5 has three times, q7 six times as many."
)
@click.option(
    "--warm-up",
    "warm_s",
    default=10,
    show_default=True,
    help="Seconds in front that do not count; as long is a run before the first one.",
)
@click.option("--rounds", default=1, show_default=True)
@click.option("--without-flink", is_flag=True)
def main(queries: str, rate: int, seconds: int, warm_s: int, rounds: int, without_flink: bool) -> None:
    console = Console(width=120)
    names = chosen(queries)
    found: dict[str, dict[str, OfSystem]] = {}
    with ExitStack() as stack:
        broker = stack.enter_context(KafkaBroker())
        systems: dict[str, System] = {"tidegate": Tidegate(stack.enter_context(BenchCluster(PARALLELISM)))}
        if not without_flink:
            jars = tuple(fetched(HERE / "rivals" / "pom.xml", "flink-kafka").glob("*.jar"))
            cluster = stack.enter_context(FlinkCluster(PARALLELISM, jars=jars))
            systems["Flink SQL"] = Flink(cluster, 100)
            systems["Flink SQL, buffers of 5 ms"] = Flink(cluster, 5)
        for query in names:
            found[query] = {name: OfSystem() for name in systems}
            stream = live.make_stream((warm_s + seconds * _EVENTS[query]) * rate, rate)
            for place, system in enumerate(systems.values()):
                run(broker, system, query, f"{query}-{place}-warm", stream.first(warm_s), 0)
            for number in range(rounds):
                for place, (name, system) in enumerate(systems.items()):
                    found[query][name].add(run(broker, system, query, f"{query}-{place}-{number}", stream, warm_s))
            console.print(table_of({query: found[query]}))
    console.print(table_of(found))
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    told = {query: {name: asdict(one) for name, one in systems.items()} for query, systems in found.items()}
    (results / "nexmark_latency.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
