"""Writes ``aggregates.json`` beside it: what PyFlink 2.3 makes of the programs of ``cases.py``.

Run by the Python of a Flink environment (``tests/servers/flink_environment.py``), in the root of the repository, as a script, which takes half an hour;
words in its arguments choose the programs that are recorded again, those whose names have one of them.

By program its changes in the order of the texts, or ``refused``, where it was not planned, or ``error``, where it failed when it ran: the last line of
the reason; or ``hangs``, where it did not end, and the recorder does, since no cancelling ends it: start it again for the rest.
"""

from __future__ import annotations

import csv
import functools
import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
os.environ["TZ"] = "UTC"
os.environ["PYTHONPATH"] = str(Path(__file__).parents[3])
from py4j.protocol import Py4JJavaError
from pyflink.util.exceptions import JavaException

from tests.contract.table_aggregates.cases import CHANGES, DELAY_S, ROWS, api, functions, programs
from tests.differential_tables.flink_side import changes

RECORDING = Path(__file__).parent / "aggregates.json"
OPTIONS = {
    "parallelism.default": "1",
    "table.local-time-zone": "UTC",
    "pipeline.auto-watermark-interval": "1 ms",
    "rest.port": "0",
    "rest.bind-port": "0",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "python.fn-execution.bundle.size": "1",
    "restart-strategy.type": "none",
}
A = api("pyflink")
PROGRAMS = programs()
LIMIT_S = 900
LIMIT_ALONE_S = 90
TOGETHER = 12
WIDTH = 10


def main() -> None:
    found: dict[str, Any] = json.loads(RECORDING.read_text("utf-8")) if RECORDING.exists() else {}
    chosen = [name for name in PROGRAMS if name not in found or any(word in name for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(Path(folder))
        jobs: dict[Any, list[str]] = {}
        for name in chosen:
            refused = planned(name, Path(folder))
            print(name, refused, file=sys.stderr, flush=True)
            if refused is not None:
                found[name] = {"refused": refused}
            else:
                jobs.setdefault((PROGRAMS[name].mode, name if PROGRAMS[name].fails else ""), []).append(name)
        for (_, alone), names in sorted(jobs.items(), key=lambda item: bool(item[0][1])):
            for at in range(0, len(names), 1 if alone else TOGETHER):
                timer = threading.Timer(LIMIT_ALONE_S, hangs, (names[0], found))
                if alone:
                    timer.start()
                found.update(together(names[at : at + TOGETHER], Path(folder)))
                timer.cancel()
                write(found)
                print(names[at : at + TOGETHER], file=sys.stderr, flush=True)
    os._exit(0)  # the cluster's threads would not end


def write(found: dict[str, Any]) -> None:
    ordered = {name: found[name] for name in PROGRAMS if name in found}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(ordered[name], ensure_ascii=False)}" for name in ordered)
    RECORDING.write_text(f"{{\n{lines}\n}}\n", "utf-8")


def hangs(name: str, found: dict[str, Any]) -> None:
    """Ends the recorder: a task of Flink's that loops cannot be cancelled."""
    write({**found, name: {"hangs": f"nothing in {LIMIT_ALONE_S} s"}})
    print(name, "hangs", file=sys.stderr, flush=True)
    os._exit(1)


def write_inputs(folder: Path) -> None:
    with (folder / "v.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(ROWS)
    lines = []
    for kind, row in CHANGES:
        record: dict[str, Any] = {"k": row[0], "n": int(row[1]), "x": float(row[2]), "ts": row[3]}
        if kind == "+I":
            lines.append({"before": None, "after": record, "op": "c"})
        elif kind == "-D":
            lines.append({"before": record, "after": None, "op": "d"})
        elif kind == "-U":
            before = record
        else:
            lines.append({"before": before, "after": record, "op": "u"})
    (folder / "v.json").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


@functools.cache
def environment(mode: str, folder: Path) -> Any:
    configuration = A.Configuration()
    for key, text in OPTIONS.items():
        configuration.set_string(key, text)
    builder = A.EnvironmentSettings.new_instance().with_configuration(configuration)
    made = A.TableEnvironment.create(
        (builder.in_batch_mode() if mode == "batch" else builder.in_streaming_mode()).build()
    )
    watermark = "" if mode == "batch" else f", WATERMARK FOR ts AS ts - INTERVAL '{DELAY_S}' SECOND"
    form = "'debezium-json'" if mode == "changes" else "'csv', 'csv.null-literal' = 'null'"
    path = folder / ("v.json" if mode == "changes" else "v.csv")
    made.execute_sql(
        f"CREATE TABLE v (k STRING, n BIGINT, x DOUBLE, ts TIMESTAMP(3), pt AS PROCTIME(){watermark}) "
        f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = {form})"
    )
    for name, function in functions(A).items():
        made.create_temporary_system_function(name, function)
    return made


def reason(error: BaseException) -> str:
    """The last line of the innermost reason that says something."""
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        text = f"{cause.getClass().getName()}: {cause.getMessage()}"
    else:
        text = f"{type(error).__name__}: {error}"
    lines = [line for line in text.strip().splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    python = [line for line in lines if not line.startswith(" ") and "Error: " in line]
    return (python or lines)[-1 if python else 0].strip()[:600]


def text_table(name: str, table: Any) -> Any:
    """The rows of a program as texts behind its name, with as many columns as any has."""
    columns = list(table.get_schema().get_field_names())
    texts = [A.col(column).cast(A.DataTypes.STRING()).alias(f"c{at}") for at, column in enumerate(columns)]
    nothing = [A.null_of(A.DataTypes.STRING()).alias(f"c{at}") for at in range(len(columns), WIDTH)]
    return table.select(
        A.lit(name).cast(A.DataTypes.STRING()).alias("program"), A.lit(len(columns)).alias("width"), *texts, *nothing
    )


def planned(name: str, folder: Path) -> str | None:
    """Why it is not planned."""
    try:
        tables = environment(PROGRAMS[name].mode, folder)
        PROGRAMS[name].make(A, tables).explain()
    except (Py4JJavaError, JavaException, TypeError, AttributeError, ValueError) as error:
        return reason(error)
    return None


def together(names: list[str], folder: Path) -> dict[str, Any]:
    """Programs of one mode by one job, or, where that fails, by one for each half."""
    tables = environment(PROGRAMS[names[0]].mode, folder)
    try:
        first, *others = [text_table(name, PROGRAMS[name].make(A, tables)) for name in names]
        for other in others:
            first = first.union_all(other)
        result = first._j_table.execute()
        timer = threading.Timer(LIMIT_S, result.getJobClient().get().cancel)
        timer.start()
        try:
            rows = changes(result)
        finally:
            timer.cancel()
    except (Py4JJavaError, JavaException) as error:
        print(names, str(error)[-3000:], file=sys.stderr)
        if len(names) == 1:
            return {names[0]: {"error": reason(error)}}
        middle = len(names) // 2
        return {**together(names[:middle], folder), **together(names[middle:], folder)}
    found: dict[str, Any] = {name: [] for name in names}
    for kind, (name, width, *texts) in rows:
        found[str(name)].append([kind, *texts[: int(str(width))]])
    return {name: sorted(lines, key=repr) for name, lines in found.items()}


if __name__ == "__main__":
    main()
