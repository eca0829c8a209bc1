"""Runs statements through Flink 2.3, at parallelism 1 and in a mini cluster of this process.

Run by the Python of a Flink environment (``tests/servers/flink_environment.py``): ``python flink_side.py FOLDER CASES RESULTS``. ``CASES``: JSON
lines of ``tables`` (``ddl`` with ``{path}``, ``text`` of the file), ``query``, ``is_streaming``, ``options``. ``RESULTS``: JSON lines of ``plan`` and
``changes``, with ``null`` for NULL and otherwise Flink's own text of each value; ``error`` instead of ``changes`` where it failed when it ran; ``refused``
where it was not planned. A mini cluster stops answering after some 200 jobs: give it at most 60 statements.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyflink.java_gateway import get_gateway  # the environment's own
from pyflink.util.exceptions import JavaException

JVM = get_gateway().jvm
API = JVM.org.apache.flink.table.api
OPTIONS = {
    "parallelism.default": "1",
    "pipeline.auto-watermark-interval": "1 ms",
    "table.plan.compile.catalog-objects": "ALL",
    "table.optimizer.multiple-input-enabled": "false",
    "table.optimizer.adaptive-broadcast-join.strategy": "none",
    "table.optimizer.skewed-join-optimization.strategy": "none",
}
CLUSTER = {
    "rest.port": "0",
    "rest.bind-port": "0",
    "rest.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "taskmanager.memory.managed.size": "256m",
}


def configuration(options: dict[str, str]) -> Any:
    made = JVM.org.apache.flink.configuration.Configuration()
    for key, text in options.items():
        made.setString(key, text)
    return made


def start_cluster() -> tuple[Any, dict[str, str]]:
    """The cluster, and the options of its clients."""
    builder = JVM.org.apache.flink.runtime.minicluster.MiniClusterConfiguration.Builder()
    built = builder.setConfiguration(configuration(CLUSTER)).setNumTaskManagers(1).setNumSlotsPerTaskManager(8).build()
    cluster = JVM.org.apache.flink.runtime.minicluster.MiniCluster(built)
    cluster.start()
    port = str(cluster.getRestAddress().get().getPort())
    return cluster, {"execution.target": "remote", "rest.address": "127.0.0.1", "rest.port": port}


def message(error: Py4JJavaError | JavaException) -> str:
    """The innermost reason."""
    if isinstance(error, JavaException):
        return str(error)[:600]
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString())[:600]


def environment(case: dict[str, Any], folder: Path, options: dict[str, str]) -> Any:
    settings = API.EnvironmentSettings.newInstance().withConfiguration(
        configuration({**OPTIONS, **options, **case["options"]})
    )
    made = API.TableEnvironment.create(
        (settings.inStreamingMode() if case["is_streaming"] else settings.inBatchMode()).build()
    )
    for table in case["tables"]:
        path = folder / f"{table['name']}.csv"
        path.write_text(table["text"], "utf-8")
        made.executeSql(table["ddl"].replace("{path}", str(path)))
    return made


def changes(result: Any) -> list[tuple[str, list[str | None]]]:
    rows, texts, found = result.collectInternal(), result.getRowDataToStringConverter(), []
    try:
        while rows.hasNext():
            row = rows.next()
            values = [None if row.isNullAt(i) else text for i, text in enumerate(texts.convert(row))]
            found.append((row.getRowKind().shortString(), values))
    finally:
        rows.close()
    return found


def run(case: dict[str, Any], folder: Path, options: dict[str, str]) -> dict[str, Any]:
    folder.mkdir()
    made = environment(case, folder, options)
    try:
        table = made.sqlQuery(case["query"])
        sink = API.TableDescriptor.forConnector("print").build()
        plan = table.insertInto(sink).compilePlan().asJsonString().replace(f"{folder}/", "/in/")
    except (Py4JJavaError, JavaException) as error:
        return {"refused": message(error)}
    try:
        return {"plan": json.loads(plan), "changes": changes(table.execute())}
    except (Py4JJavaError, JavaException) as error:
        return {"plan": json.loads(plan), "error": message(error)}


def main(folder: Path, cases: Path, results: Path) -> None:
    cluster, options = start_cluster()
    with results.open("w", encoding="utf-8") as file:
        for number, line in enumerate(cases.read_text("utf-8").splitlines()):
            file.write(json.dumps(run(json.loads(line), folder / str(number), options)) + "\n")
            file.flush()
    cluster.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
