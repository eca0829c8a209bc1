"""The systems that run a query, each on a cluster that is up, in a session that submits one statement after the other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import pyspark

from benchmarks.cluster import BenchCluster
from benchmarks.flink_cluster import FlinkCluster
from benchmarks.nexmark.statements import QUERIES, partitions, tables
from benchmarks.waiting import wait_until
from tests.e2e.jobs.nexmark import count_char, make_side_input
from tests.servers.jars import fetched
from tidegate.cli.executor import ClusterExecutor
from tidegate.datastream._graph.executor import installed
from tidegate.table import EnvironmentSettings, TableDescriptor, TableEnvironment

PARALLELISM, INTERVAL_MS = 2, 1_000
RIVALS = Path(__file__).resolve().parent.parent / "rivals"


@dataclass
class Run:
    """One job."""

    seconds: float
    """From RUNNING to FINISHED."""
    checkpoints_ms: list[float] = field(default_factory=list)
    """From trigger to the last acknowledgement."""
    state_bytes: int = 0
    """Of the largest checkpoint."""


class System(Protocol):
    def run(self, query: str, events: Path, name: str, limit_s: float) -> Run:
        """Runs a query over the files of events; ``name`` is that of its results. Raises ``RuntimeError`` if it does not finish, or is refused."""
        ...


class Tidegate:
    """Use it as a context manager."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)
        self._cluster = BenchCluster(PARALLELISM)

    def __enter__(self) -> Tidegate:
        self._cluster.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.__exit__(kind, error, trace)

    def run(self, query: str, events: Path, name: str, limit_s: float) -> Run:
        configuration = {
            "parallelism.default": str(PARALLELISM),
            "execution.checkpointing.interval": f"{INTERVAL_MS} ms",
        }
        executor = ClusterExecutor(self._cluster.client, names_async=False)
        with installed(executor, configuration):
            t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
            for key, text in {"table.local-time-zone": "UTC", **self._settings}.items():
                t_env.get_config().set(key, text)
            for statement in tables(events):
                t_env.execute_sql(statement)
            t_env.create_temporary_system_function("count_char", count_char)
            if query == "q13":
                make_side_input(t_env, self._cluster.directory / f"{name}-side")
            if query == "q10":
                t_env.execute_sql(partitions(self._cluster.directory / name))
                result = t_env.execute_sql(f"INSERT INTO partitions {QUERIES[query]}")
            else:
                nowhere = TableDescriptor.for_connector("blackhole").build()
                result = t_env.sql_query(QUERIES[query]).execute_insert(nowhere)
        client = result.get_job_client()
        assert client is not None
        job_id = str(client.get_job_id())
        return _finished(self._cluster.rest_port, job_id, limit_s)


class Flink:
    """Use it as a context manager. Its Parquet format comes from Maven, and Hadoop's classes from PySpark."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)
        hadoop = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar")
        jars = (*fetched(RIVALS / "flink_parquet" / "pom.xml", "flink-parquet").glob("flink-sql-parquet*.jar"), *hadoop)
        self._cluster = FlinkCluster(PARALLELISM, jars=jars)

    def __enter__(self) -> Flink:
        self._cluster.__enter__()
        self._jar = _jar_of_functions(self._cluster.environment.home, self._cluster.directory)
        self._session = self._cluster.session(PARALLELISM, INTERVAL_MS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.__exit__(kind, error, trace)

    def run(self, query: str, events: Path, name: str, limit_s: float) -> Run:
        functions = [
            f"CREATE TEMPORARY SYSTEM FUNCTION count_char AS 'CountChar' LANGUAGE JAVA USING JAR '{self._jar}'"
        ]
        statements, sql = tables(events), QUERIES[query]
        if query == "q10":
            statements.append(partitions(self._cluster.directory / name))
            sql = f"INSERT INTO partitions {sql}"
        told = self._session.order(settings=self._settings, functions=functions, statements=statements, query=sql)
        return _finished(self._cluster.rest_port, told["job"], limit_s)


class Spark:
    """Structured Streaming in a process of its own. Use it as a context manager."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="spark-bench-"))
        command = [sys.executable, str(RIVALS / "spark_nexmark.py"), str(PARALLELISM), str(self._directory)]
        with (self._directory / "spark.log").open("wb") as log:
            variables = {**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"}
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=variables, text=True
            )

    def __enter__(self) -> Spark:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)  # it ends with its input
        shutil.rmtree(self._directory, ignore_errors=True)

    def run(self, query: str, events: Path, name: str, limit_s: float) -> Run:
        """``limit_s`` is not kept."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{query} {pieces_of(events)} {name}\n")
        self._process.stdin.flush()
        line = next((line for line in self._process.stdout if line.startswith("ANSWER ")), None)
        if line is None:
            raise RuntimeError(f"Spark ended: {(self._directory / 'spark.log').read_text()[-2000:]}")
        told = json.loads(line[7:])
        if "error" in told:
            raise RuntimeError(told["error"])
        return Run(float(told["seconds"]))


def pieces_of(events: Path) -> Path:
    """Where the same events are as the files of micro-batches."""
    return events.with_name(f"{events.name}-pieces")


def _finished(rest_port: int, job_id: str, limit_s: float) -> Run:
    """Waits for a job, by the REST API that both have; one that takes longer is canceled. All requests have one connection: tidegate looks up whose each
    connection is, which would take a tenth of the processors that the job is measured on."""
    with closing(HTTPConnection("127.0.0.1", rest_port, timeout=20)) as api:
        found: dict[str, Any] = {}

        def has_ended() -> bool:
            found.update(_rest(api, f"/jobs/{job_id}"))
            return found["state"] in ("FINISHED", "FAILED", "CANCELED")

        try:
            wait_until(has_ended, f"the end of job {job_id}", limit_s)
        except RuntimeError:
            _rest(api, f"/jobs/{job_id}?mode=cancel", "PATCH")
            wait_until(has_ended, f"the cancellation of job {job_id}", 60)
            raise
        if found["state"] != "FINISHED":
            raise RuntimeError(f"job {job_id} {found['state']}: {_cause(api, job_id)}")
        times = found["timestamps"]
        history = _rest(api, f"/jobs/{job_id}/checkpoints")["history"]
    completed = [one for one in history if one["status"] == "COMPLETED"]
    return Run(
        (times["FINISHED"] - times["RUNNING"]) / 1000,
        [float(one["end_to_end_duration"]) for one in completed],
        max((int(one["state_size"]) for one in completed), default=0),
    )


def _cause(api: HTTPConnection, job_id: str) -> str:
    """The lines of its first failure's stack trace that say something."""
    entries = _rest(api, f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"]
    lines = [line for entry in entries for line in entry["stacktrace"].splitlines()]
    return "\n".join(line for line in lines if not line.startswith(("\tat ", "\t...")))[-3000:]


def _rest(api: HTTPConnection, path: str, method: str = "GET") -> Any:
    api.request(method, path)
    with api.getresponse() as answer:
        content = answer.read()
    if answer.status >= 400:
        raise RuntimeError(f"{method} {path}: {answer.status} {content[:1000]!r}")
    return json.loads(content or b"{}")


def _jar_of_functions(flink_home: Path, directory: Path) -> Path:
    classes, jar = directory / "classes", directory / "functions.jar"
    path = ":".join(str(one) for one in sorted((flink_home / "lib").glob("flink-*.jar")))
    command = ["javac", "-nowarn", "-cp", path, "-d", str(classes), str(RIVALS / "CountChar.java")]
    subprocess.run(command, check=True, timeout=120)
    subprocess.run(["jar", "cf", str(jar), "-C", str(classes), "."], check=True, timeout=60)
    return jar
