"""Runs joins by time through Flink 2.3, with rows that come in a given order. Run by the Python of a Flink environment:
``flink_side.py FOLDER CASES RESULTS``.

Tables read what comes into their folders: each step is a file, which appears when the one before was read and nothing more was printed. Many cases run
at once, all of them with the same options, twice. What is printed stands between lines ``step N``: those of step N were printed when N was there, and those
behind ``step end`` when event time had ended. A row has ``caseN> `` in front of it; ``run N`` begins a run. ``RESULTS`` has a line for each case, with
``plan`` or ``refused``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
from py4j.protocol import Py4JJavaError
from pyflink.util.exceptions import JavaException

from tests.contract.table_joins.cases import AT_ONCE, COLUMNS, both_sides, moment
from tests.differential_tables.flink_side import API, JVM, OPTIONS, configuration, message, start_cluster

RUNS = 2
POLL_S, QUIET_POLLS, LIMIT_S = 0.06, 6, 120
BEHAVIOUR = {**OPTIONS, "execution.buffer-timeout.interval": "0 ms"}
NAMES = [column.split("`")[1] for column in COLUMNS.split(", ")]


def record(step: list[Any]) -> dict[str, Any]:
    values = [
        moment(value) if name in ("ts", "wm") and value is not None else value
        for name, value in zip(NAMES, step, strict=True)
    ]
    return dict(zip(NAMES, values, strict=True))


def files(case: dict[str, Any], step: Any) -> dict[str, str]:
    """What a step brings, by the folder that it comes into."""
    if not case["has_versions"]:
        return {"t": json.dumps(record(step)) + "\n"}
    return {
        side: json.dumps(record(change["after"]) if side == "l" else debezium(change)) + "\n"
        for side, change in both_sides(step).items()
    }


def debezium(change: dict[str, Any]) -> dict[str, Any]:
    kind = "c" if change["before"] is None else "d" if change["after"] is None else "u"
    return {**{name: None if row is None else record(row) for name, row in change.items()}, "op": kind}


def tables(case: dict[str, Any], number: int, folder: Path) -> list[str]:
    """The statements that make its tables."""
    named = "CREATE TABLE {} ({}, WATERMARK FOR ts AS wm{}) WITH ({})".format
    if not case["has_versions"]:
        return [
            named(f"t{number}", COLUMNS, "", _options(folder / f"t{number}", "json")),
            f"CREATE VIEW l{number} AS SELECT * FROM t{number} WHERE side = 'L'",
            f"CREATE VIEW r{number} AS SELECT * FROM t{number} WHERE side = 'R'",
        ]
    key = ", PRIMARY KEY (k) NOT ENFORCED"
    return [
        named(f"t{number}", COLUMNS, "", _options(folder / f"l{number}", "json")),
        f"CREATE VIEW l{number} AS SELECT * FROM t{number} WHERE side = 'L'",
        named(f"r{number}", COLUMNS, key, _options(folder / f"r{number}", "debezium-json")),
    ]


def _options(folder: Path, format: str) -> str:
    folder.mkdir()
    options = {"connector": "filesystem", "path": str(folder), "format": format, "source.monitor-interval": "20 ms"}
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())


def compiled(case: dict[str, Any], number: int, made: Any, inserts: Any, folder: Path) -> dict[str, Any]:
    """The plan of a case, which is added to ``inserts``; or the reason why there is none."""
    for statement in tables(case, number, folder):
        made.executeSql(statement)
    try:
        table = made.sqlQuery(case["query"].format(l=f"l{number}", r=f"r{number}"))
        sink = API.TableDescriptor.forConnector("print").option("print-identifier", f"case{number}").build()
        plan = table.insertInto(sink).compilePlan().asJsonString().replace(f"{folder}/", "/in/")
        inserts.add(table.insertInto(sink))
        for read in (f"t{number}", *([f"r{number}"] if case["has_versions"] else [])):
            echo = API.TableDescriptor.forConnector("print").option("print-identifier", f"echo{number}").build()
            inserts.add(made.sqlQuery(f"SELECT * FROM {read}").insertInto(echo))
    except (Py4JJavaError, JavaException) as error:
        return {"refused": message(error)}
    return {"plan": json.loads(plan)}


class Printed:
    """What tables print in this process from now on."""

    def __init__(self) -> None:
        self._bytes = JVM.java.io.ByteArrayOutputStream()
        JVM.java.lang.System.setOut(JVM.java.io.PrintStream(self._bytes, True))
        self._seen = 0

    def lines(self) -> list[str]:
        return str(self._bytes.toString("UTF-8")).splitlines()

    def wait(self, echoes: int) -> list[str]:
        """Returns what is new when so many rows were read in all, and nothing more was printed for a while."""
        quiet = last = 0
        until = time.monotonic() + LIMIT_S
        while quiet < QUIET_POLLS:
            time.sleep(POLL_S)
            lines = self.lines()
            is_read = sum(line.startswith("echo") for line in lines) >= echoes
            quiet = quiet + 1 if is_read and len(lines) == last else 0
            last = len(lines)
            assert time.monotonic() < until, f"{echoes} rows were not read: {lines[-20:]}"
        new, self._seen = lines[self._seen :], len(lines)
        return [line for line in new if not line.startswith("echo")]


def run(plan: Any, numbered: list[tuple[int, dict[str, Any]]], folder: Path) -> None:
    for place in folder.glob("*/*.json"):
        place.unlink()
    printed, echoes = Printed(), 0

    def bring(number: int, case: dict[str, Any], step: Any, file: str) -> int:
        for name, text in files(case, step).items():
            waiting = folder / "waiting"
            waiting.write_text(text, "utf-8")
            waiting.rename(folder / f"{name}{number}" / file)
        return len(files(case, step)) + (isinstance(step, dict) and None not in step.values())

    client = plan.execute().getJobClient().get()
    for number, case in numbered:
        echoes += bring(number, case, ["W", 0, None, 0, None, 0], "begin.json")
    assert not printed.wait(echoes)
    for step in range(max(len(case["steps"]) for _, case in numbered)):
        for number, case in numbered:
            if step < len(case["steps"]):
                echoes += bring(number, case, case["steps"][step], f"{step:03}.json")
        print(f"step {step}", *printed.wait(echoes), sep="\n", flush=True)
    kind = JVM.org.apache.flink.core.execution.SavepointFormatType.CANONICAL
    client.stopWithSavepoint(True, f"file://{folder}/savepoint", kind).get()
    print("step end", *printed.wait(echoes), sep="\n", flush=True)


def main(folder: Path, given: Path, results: Path) -> None:
    cases = list(enumerate(json.loads(line) for line in given.read_text("utf-8").splitlines()))
    cluster, options = start_cluster()
    with results.open("w", encoding="utf-8") as file:
        for start in range(0, len(cases), AT_ONCE):
            part = cases[start : start + AT_ONCE]
            settings = API.EnvironmentSettings.newInstance().withConfiguration(
                configuration({**BEHAVIOUR, **options, **part[0][1]["options"]})
            )
            made = API.TableEnvironment.create(settings.inStreamingMode().build())
            inserts = made.createStatementSet()
            found = [compiled(case, number, made, inserts, folder) for number, case in part]
            plan = inserts.compilePlan()
            for count in range(RUNS):
                print(f"run {start // AT_ONCE}.{count}", flush=True)
                run(plan, part, folder)
            file.write("".join(json.dumps(one) + "\n" for one in found))
            file.flush()
            print(f"{start + len(part)} of {len(cases)}", file=sys.stderr, flush=True)
    cluster.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
