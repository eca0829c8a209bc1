"""Writes ``files.json`` beside it: what Flink 2.3 reads of tables of files by patterns and with metadata, what it reads of a directory that it watches, which
partitions it commits when, which times partitions have, and how it refuses the connector properties of old.

Run by the Python of a Flink environment (``tests/servers/flink_environment.py``), in the root of the repository, as a script, with the names of the parts to
record (all without one). ``{root}`` stands for the directory of the table.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
from py4j.protocol import Py4JJavaError
from pyflink.java_gateway import get_gateway  # the environment's own
from pyflink.util.exceptions import JavaException

from tests.differential_tables.flink_side import API, JVM, OPTIONS, changes, configuration, message, start_cluster

NO_DETAILS = get_gateway().new_array(API.ExplainDetail, 0)
RECORDING = Path(__file__).parent / "files.json"
FILES = {
    "a.csv": "1", "b.txt": "2", "sub/c.csv": "3", "sub/.hidden.csv": "4", "_skip/d.csv": "5", "sub/deep/a-2.csv": "6\n7",
    ".x/e.csv": "8", "sub/_SUCCESS": "9", "A.CSV": "10",
}  # fmt: skip
PARTITIONS = {"p=1/a.csv": "1", "p=1/b.txt": "2", "p=2/a.csv": "3", "p=2/sub/a.csv": "4"}
PATTERNS = (
    None, r".*\.csv", r"{root}/.*\.csv", r"a\.csv", r".*/a[^/]*\.csv", r"{root}/sub/.*", r".*/sub/[a-z]\.csv", r"{root}", r"(?i).*\.CSV",
    r".*[^v]", r".*", r".*\.nothing", r".*/p=1/.*", r".*hidden.*", r"file:{root}/.*", "",
)  # fmt: skip
PLAIN = "v INT"
METADATA = {
    "all": "v INT, `file.path` STRING NOT NULL METADATA, `file.name` STRING NOT NULL METADATA, `file.size` BIGINT NOT NULL METADATA, "
    "`file.modification-time` TIMESTAMP_LTZ(3) NOT NULL METADATA",
    "renamed": "n STRING METADATA FROM 'file.name', v INT, s BIGINT METADATA FROM 'file.size' VIRTUAL",
    "cast": "v INT, `file.size` INT METADATA, t TIMESTAMP_LTZ(6) METADATA FROM 'file.modification-time', d AS v * 2",
    "unknown": "v INT, `file.owner` STRING METADATA",
    "not-castable": "v INT, `file.size` BOOLEAN METADATA",
}
METADATA_QUERIES = (("all", "*"), ("renamed", "n"), ("cast", "*"), ("unknown", "*"), ("not-castable", "*"))
MODIFIED_S = 1_700_000_000.25
EVENTS = (
    (0, "10:05:00", "10"),
    (1, "10:59:59", "10"),
    (2, "11:00:00", "11"),
    (3, "11:00:01", "11"),
    (4, "12:30:00", "12"),
    (5, "10:01:00", "10"),
)
"""Rows of a file each: number, time, hour."""
TIMES: tuple[tuple[str | None, str | None, tuple[str, ...], tuple[str, ...]], ...] = (
    (None, None, ("dt",), ("2020-05-03",)),
    (None, None, ("dt",), ("2020-05-03 11:12:13",)),
    (None, None, ("dt",), ("2020-5-3 1:2:3.25",)),
    (None, None, ("dt",), ("2020-05-03 11:12",)),
    (None, None, ("dt",), ("2020-13-45 25:61:61",)),
    (None, None, ("dt",), ("-1-1-1",)),
    (None, None, ("dt",), ("+2020-05-03",)),
    (None, None, ("dt",), ("20200503",)),
    (None, None, ("dt",), ("2020-05-03T11:12:13",)),
    (None, None, ("dt",), ("2020-05-03 ",)),
    (None, None, ("dt",), ("2020-00-00",)),
    (None, None, ("dt", "hour"), ("2020-05-03", "7")),
    ("$dt $hour:00:00", None, ("dt", "hour"), ("2020-05-03", "7")),
    ("$year-$month-$day $hour:00:00", None, ("year", "month", "day", "hour"), ("2020", "05", "03", "23")),
    ("$d $dt", None, ("d", "dt"), ("2020-05-03", "7")),
    ("$dt", None, ("d", "dt"), ("1", "2020-05-03")),
    ("$dt", None, ("dt",), ("2020-05-03$",)),
    ("2020-$m-01", None, ("m",), ("2",)),
    ("no key", None, ("dt",), ("2020-05-03",)),
    (None, "yyyyMMdd", ("dt",), ("20200503",)),
    (None, "yyyyMMdd", ("dt",), ("2020-05-03",)),
    ("$dt$hour", "yyyyMMddHH", ("dt", "hour"), ("20200503", "07")),
    ("$dt $hour", "yyyyMMdd H", ("dt", "hour"), ("20200503", "7")),
    ("$dt", "dd.MM.yyyy HH:mm:ss", ("dt",), ("03.05.2020 01:02:03",)),
    ("$dt", "yyyy-MM-dd'T'HH:mm", ("dt",), ("2020-05-03T11:12",)),
    ("$dt", "MM/yyyy", ("dt",), ("05/2020",)),
    ("$dt", "bad pattern", ("dt",), ("05/2020",)),
    (None, None, ("dt",), ("__DEFAULT_PARTITION__",)),
)
LEGACY: tuple[dict[str, str], ...] = (
    {"connector.type": "filesystem", "connector.path": "/x", "format.type": "csv"},
    {"connector.type": "kafka", "connector.version": "universal", "format.type": "json", "update-mode": "append"},
    {"connector": "filesystem", "path": "/x", "format.type": "csv"},
    {"connector": "filesystem", "path": "/x", "format": "csv", "format.derive-schema": "true"},
    {"connector.type": "datagen"},
    {"type": "filesystem", "path": "/x"},
    {},
)  # fmt: skip


def write_files(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{path.name}.new")
        hidden.write_text(f"{text}\n", "utf-8")
        os.utime(hidden, (MODIFIED_S, MODIFIED_S))
        hidden.rename(path)


def files_table(
    root: Path, columns: str, options: Mapping[str, str], partitions: Iterable[str] = (), name: str = "t"
) -> str:
    told = {"connector": "filesystem", "path": str(root), "format": "csv", **options}
    keys = f"PARTITIONED BY ({', '.join(partitions)}) " if partitions else ""
    return f"CREATE TABLE {name} ({columns}) {keys}WITH ({', '.join(quoted(key, text) for key, text in told.items())})"


def quoted(key: str, text: str) -> str:
    return "'{}' = '{}'".format(key, text.replace("'", "''"))


class Recorder:
    """``folder``: of its own, for files."""

    def __init__(self, folder: Path) -> None:
        self._cluster, self._options = start_cluster()
        self._folder = folder
        self._number = 0

    def close(self) -> None:
        self._cluster.close()

    def root(self, files: Mapping[str, str]) -> Path:
        self._number += 1
        root = self._folder / str(self._number)
        root.mkdir()
        write_files(root, files)
        return root

    def environment(self, *, is_streaming: bool, **options: str) -> Any:
        told = {**OPTIONS, **self._options, "table.local-time-zone": "UTC"}
        told |= {key.replace("__", "-").replace("_", "."): text for key, text in options.items()}
        settings = API.EnvironmentSettings.newInstance().withConfiguration(configuration(told))
        return API.TableEnvironment.create(
            (settings.inStreamingMode() if is_streaming else settings.inBatchMode()).build()
        )


def without_root(text: str, root: Path) -> str:
    return text.replace(str(root), "{root}")


def ended(made: Any, statement: str) -> None:
    getattr(made.executeSql(statement), "await")()


def attempted(root: Path, run: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """``rows`` or ``error``."""
    try:
        found = run(*arguments)
    except (Py4JJavaError, JavaException) as error:
        return {"error": without_root(message(error), root).partition("\n\tat ")[0]}
    return {"rows": json.loads(without_root(json.dumps(found), root))}


def rows_of(made: Any, query: str) -> list[list[str | None]]:
    return sorted((row for _, row in changes(made.executeSql(query))), key=repr)


def sources(recorder: Recorder) -> dict[str, Any]:
    found, metadata = [], []
    for is_partitioned in (False, True):
        root = recorder.root(PARTITIONS if is_partitioned else FILES)
        made = recorder.environment(is_streaming=False)
        columns, keys = ("v INT, p INT", ("p",)) if is_partitioned else (PLAIN, ())
        for number, pattern in enumerate(PATTERNS):
            options = {} if pattern is None else {"source.path.regex-pattern": pattern.replace("{root}", str(root))}
            made.executeSql(files_table(root, columns, options, keys, f"t{number}"))
        query = " UNION ALL ".join(f"SELECT {number} AS c, * FROM t{number}" for number in range(len(PATTERNS)))
        rows = rows_of(made, query)
        for number, pattern in enumerate(PATTERNS):
            own = [row[1:] for row in rows if row[0] == str(number)]
            found.append({"pattern": pattern, "is_partitioned": is_partitioned, "rows": own})
        for name, query in METADATA_QUERIES:
            made = recorder.environment(is_streaming=False)
            columns, keys = (f"{METADATA[name]}, p INT", ("p",)) if is_partitioned else (METADATA[name], ())
            made.executeSql(files_table(root, columns, {}, keys))
            got = attempted(root, rows_of, made, f"SELECT {query} FROM t")
            metadata.append({"columns": name, "query": query, "is_partitioned": is_partitioned, **got})
    return {"patterns": found, "metadata": metadata}


def monitoring(recorder: Recorder) -> dict[str, Any]:
    steps: tuple[tuple[dict[str, str], int], ...] = (
        ({}, 2),
        ({"sub/c.csv": "3", "_hidden.csv": "100"}, 1),
        ({"a.csv": "1\n11"}, 0),
        ({"new/deep/d.csv": "4\n5", "e.txt": "101"}, 2),
    )
    root = recorder.root({"a.csv": "1", "b.csv": "2"})
    made = recorder.environment(is_streaming=True)
    options = {"source.monitor-interval": "50 ms", "source.path.regex-pattern": r".*\.csv"}
    columns = "v INT, n STRING METADATA FROM 'file.name'"
    made.executeSql(files_table(root, columns, options))
    found = [{"files": files, "rows": rows} for files, rows in watched(made, root, steps)]
    root = recorder.root({"p=1/a.csv": "1"})
    made = recorder.environment(is_streaming=True)
    made.executeSql(files_table(root, "v INT, p INT", {"source.monitor-interval": "50 ms"}, ("p",)))
    of_partitions = [
        {"files": files, "rows": rows}
        for files, rows in watched(made, root, (({}, 1), ({"p=2/b.csv": "2"}, 0), ({"p=1/c.csv": "3"}, 1)))
    ]
    made = recorder.environment(is_streaming=False)
    made.executeSql(files_table(root, PLAIN, {"source.monitor-interval": "50 ms"}))
    refused = attempted(root, rows_of, made, "SELECT * FROM t")
    made = recorder.environment(is_streaming=True)
    made.executeSql(files_table(root, PLAIN, {"source.monitor-interval": "0 ms"}))
    zero = attempted(root, rows_of, made, "SELECT * FROM t")
    return {"monitored": found, "monitored_partitions": of_partitions, "in_batch_mode": refused, "zero": zero}


def watched(made: Any, root: Path, steps: Iterable[tuple[dict[str, str], int]]) -> list[tuple[dict[str, str], Any]]:
    """The rows that come after each step, of which is known how many come."""
    result = made.executeSql("SELECT * FROM t")
    rows, texts, found = result.collectInternal(), result.getRowDataToStringConverter(), []
    for files, count in steps:
        write_files(root, files)
        if not count:
            threading.Event().wait(1)
        got = [list(texts.convert(rows.next())) for _ in range(count)]
        found.append((files, sorted(got)))
    rows.close()
    return found


def tree(root: Path) -> list[str]:
    """Directories with data, with ``part``, and files that are no data."""
    found = set()
    for path in root.rglob("*"):
        name = path.relative_to(root)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            found.add(str(name.parent / "part") if path.name.startswith("part-") else str(name))
    return sorted(found)


COMMIT = {"sink.partition-commit.policy.kind": "success-file"}
COMMITS: tuple[tuple[str, dict[str, str]], ...] = (
    ("dynamic", {}),
    ("dynamic", COMMIT),
    ("dynamic", {**COMMIT, "sink.partition-commit.success-file.name": "done.txt"}),
    ("dynamic", {**COMMIT, "sink.partition-commit.delay": "1 h"}),
    ("dynamic", {**COMMIT, "sink.partition-commit.trigger": "partition-time"}),
    ("dynamic", {**COMMIT, "sink.partition-commit.trigger": "partition-time", "partition.time-extractor.timestamp-pattern": "$dt $hour:00:00"}),
    ("bad-time", {**COMMIT, "sink.partition-commit.trigger": "partition-time"}),
    ("dynamic", {"sink.partition-commit.policy.kind": "metastore"}),
    ("dynamic", {"sink.partition-commit.policy.kind": "success-file,metastore"}),
    ("dynamic", {"sink.partition-commit.policy.kind": "SUCCESS-FILE"}),
    ("dynamic", {"sink.partition-commit.policy.kind": "custom"}),
    ("dynamic", {"sink.partition-commit.policy.kind": "nothing"}),
    ("dynamic", {**COMMIT, "sink.partition-commit.trigger": "never"}),
    ("dynamic", {**COMMIT, "sink.partition-commit.delay": "soon"}),
    ("dynamic", {**COMMIT, "sink.partition-commit.watermark-time-zone": "Mars/Phobos"}),
    ("static", COMMIT),
    ("static-empty", COMMIT),
    ("half-static", COMMIT),
    ("empty", COMMIT),
    ("plain", COMMIT),
    ("plain-empty", COMMIT),
    ("overwrite", COMMIT),
    ("null", COMMIT),
)  # fmt: skip
ROWS = "(1, '2020-05-03', '10'), (2, '2020-05-03', '11'), (3, '2020-05-04', '10')"
STATEMENTS = {
    "dynamic": f"INSERT INTO t VALUES {ROWS}",
    "bad-time": "INSERT INTO t VALUES (1, 'yesterday', '10')",
    "static": "INSERT INTO t PARTITION (dt = '2020-05-05', `hour` = '1') VALUES (1), (2)",
    "static-empty": "INSERT INTO t PARTITION (dt = '2020-05-05', `hour` = '1') SELECT v FROM (VALUES (1)) AS s(v) WHERE v > 1",
    "half-static": "INSERT INTO t PARTITION (dt = '2020-05-05') VALUES (1, '3')",
    "empty": "INSERT INTO t SELECT v, 'a', 'b' FROM (VALUES (1)) AS s(v) WHERE v > 1",
    "plain": f"INSERT INTO t VALUES {ROWS}",
    "plain-empty": "INSERT INTO t SELECT v, 'a', 'b' FROM (VALUES (1)) AS s(v) WHERE v > 1",
    "overwrite": "INSERT OVERWRITE t VALUES (1, '2020-05-03', '10')",
    "null": "INSERT INTO t VALUES (1, CAST(NULL AS STRING), '')",
}


ALONE = ("custom", "nothing")
"""Policies that fail when a job runs."""


def commits(recorder: Recorder) -> dict[str, Any]:
    """Statements that can run do so as one job of each mode."""
    found: list[dict[str, Any]] = []
    for is_streaming in (False, True):
        made, running = recorder.environment(is_streaming=is_streaming), []
        together = made.createStatementSet()
        for number, (name, options) in enumerate(COMMITS):
            root = recorder.root({})
            keys = () if name.startswith("plain") else ("dt", "`hour`")
            made.executeSql(files_table(root, "v INT, dt STRING, `hour` STRING", options, keys, f"t{number}"))
            statement = STATEMENTS[name].replace(" t ", f" t{number} ")
            case = {"statement": name, "is_streaming": is_streaming, "options": options}
            got = attempted(root, made.explainSql, statement, API.ExplainFormat.TEXT, NO_DETAILS)
            if "error" not in got and options.get("sink.partition-commit.policy.kind") in ALONE:
                got = attempted(root, ended, made, statement)
            elif "error" not in got:
                together.addInsertSql(statement)
            kept = {"error": got["error"].splitlines()[0]} if "error" in got else {}
            running.append(({**case, **kept}, root))
        getattr(together.execute(), "await")()
        found += [{**case, "tree": tree(root)} for case, root in running]
    return {"commits": found}


RUNNING: tuple[dict[str, str], ...] = (
    {**COMMIT, "sink.partition-commit.trigger": "partition-time", "sink.partition-commit.delay": "1 h",
     "partition.time-extractor.timestamp-pattern": "$dt $hour:00:00"},
    {**COMMIT, "sink.partition-commit.trigger": "partition-time", "partition.time-extractor.timestamp-pattern": "$dt $hour:00:00",
     "sink.partition-commit.watermark-time-zone": "Asia/Shanghai", "sink.partition-commit.delay": "9 h"},
    COMMIT,
    {**COMMIT, "sink.partition-commit.delay": "1 d"},
)  # fmt: skip


def running(recorder: Recorder) -> dict[str, Any]:
    """A job that does not end, with a table for each choice of options: after each file of rows the directories that were committed since the last one."""
    read, roots = recorder.root({}), [recorder.root({}) for _ in RUNNING]
    made = recorder.environment(
        is_streaming=True, execution_checkpointing_interval="1 s", pipeline_auto__watermark__interval="50 ms"
    )
    columns = "v INT, `at` TIMESTAMP(3), `hour` STRING, WATERMARK FOR `at` AS `at`"
    made.executeSql(files_table(read, columns, {"source.monitor-interval": "50 ms"}, name="s"))
    together = made.createStatementSet()
    for number, (options, root) in enumerate(zip(RUNNING, roots, strict=True)):
        made.executeSql(files_table(root, "v INT, dt STRING, `hour` STRING", options, ("dt", "`hour`"), f"t{number}"))
        together.addInsertSql(f"INSERT INTO t{number} SELECT v, '2020-05-03', `hour` FROM s")
    compiled = together.compilePlan()
    plan = compiled.asJsonString().replace(f'"{read}"', '"{read}"')
    for number, root in enumerate(roots):
        plan = plan.replace(f'"{root}"', f'"{{root}}/{number}"')
    client = compiled.execute().getJobClient().get()
    steps: list[list[list[str]]] = [[] for _ in roots]
    for number, at, hour in EVENTS:
        for done in (done for root in roots for done in root.rglob("_SUCCESS")):
            done.unlink()
        write_files(read, {f"{number}.csv": f"{number},2020-05-03 {at},{hour}"})
        threading.Event().wait(
            8
        )  # several checkpoints: part files of rows stay hidden until their partition is committed
        for root, own in zip(roots, steps, strict=True):
            own.append([str(path.parent.relative_to(root)) for path in sorted(root.rglob("_SUCCESS"))])
    client.cancel().get()
    found = [{"options": options, "steps": own} for options, own in zip(RUNNING, steps, strict=True)]
    return {"running": found, "events": EVENTS, "plan": json.loads(plan)}


def times(recorder: Recorder) -> dict[str, Any]:
    found = []
    extractor = JVM.org.apache.flink.connector.file.table.DefaultPartTimeExtractor
    for pattern, formatter, keys, values in TIMES:
        case: dict[str, Any] = {"pattern": pattern, "formatter": formatter, "keys": keys, "values": values}
        try:
            case["time"] = extractor(pattern, formatter).extract(java_list(keys), java_list(values)).toString()
        except Py4JJavaError as error:
            case["error"] = message(error)
        found.append(case)
    return {"times": found}


def java_list(texts: Iterable[str]) -> Any:
    made = JVM.java.util.ArrayList()
    for text in texts:
        made.add(text)
    return made


def legacy(recorder: Recorder) -> dict[str, Any]:
    found = []
    for options in LEGACY:
        for statement in ("SELECT * FROM t", "INSERT INTO t VALUES (1)"):
            made = recorder.environment(is_streaming=True)
            told = f" WITH ({', '.join(quoted(key, text) for key, text in options.items())})" if options else ""
            case: dict[str, Any] = {"options": options, "statement": statement}
            for step in (f"CREATE TABLE t (v INT){told}", statement):
                try:
                    made.explainSql(step, API.ExplainFormat.TEXT, NO_DETAILS) if step == statement else made.executeSql(
                        step
                    )
                except (Py4JJavaError, JavaException) as error:
                    case |= {"at": step.split()[0], "error": whole_message(error)}
                    break
            found.append(case)
    return {"legacy": found}


def whole_message(error: Py4JJavaError | JavaException) -> list[str]:
    """The message of each cause, the outermost first."""
    if isinstance(error, JavaException):
        return [str(error).partition("\n\tat ")[0]]
    found, cause = [], error.java_exception
    while cause is not None:
        found.append(str(cause.toString()).partition("\n\tat ")[0])
        cause = cause.getCause()
    return found


PARTS: dict[str, Callable[[Recorder], dict[str, Any]]] = {
    "times": times, "legacy": legacy, "sources": sources, "monitoring": monitoring, "commits": commits, "running": running,
}  # fmt: skip


def main(names: list[str]) -> None:
    known = json.loads(RECORDING.read_text("utf-8")) if RECORDING.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder))
        for name in names or PARTS:
            known |= PARTS[name](recorder)
            RECORDING.write_text(written(known), "utf-8")
        recorder.close()


def written(known: dict[str, Any]) -> str:
    """A line for each case."""
    parts = []
    for name, cases in sorted(known.items()):
        lines = [json.dumps(case, ensure_ascii=False) for case in cases] if isinstance(cases, list) else None
        parts.append(
            f'"{name}": '
            + (json.dumps(cases, ensure_ascii=False) if lines is None else "[\n" + ",\n".join(lines) + "\n]")
        )
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main(sys.argv[1:])
