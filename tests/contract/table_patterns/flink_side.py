"""Evaluates expressions through Flink 2.3 over rows ``(s, p)``. Run by the Python of a Flink environment: ``flink_side.py FOLDER CASES RESULTS``.

``RESULTS`` has a line for each case: ``plan`` with ``values``, the expression of each row, or ``error``, the innermost reason where the job failed; ``refused``
where the expression was not planned. Cases of the same rows run in one job, and where that fails in halves.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
from py4j.protocol import Py4JJavaError
from pyflink.util.exceptions import JavaException

from tests.differential_tables.flink_side import changes, environment, message, start_cluster

DDL = (
    "CREATE TABLE t (`n` INT, `s` STRING, `p` STRING) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv', "
    "'csv.null-literal' = '<null>')"
)
AT_ONCE = 20
JOBS = 100
"""After so many a mini cluster is replaced by a new one."""


class Evaluation:
    """Jobs of one mini cluster after another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs = self._environments = 0
        self._cluster, self._options = start_cluster()
        self._made: tuple[str, Any, Path] | None = None

    def close(self) -> None:
        self._cluster.close()

    def environment(self, rows: list[list[str | None]]) -> tuple[Any, Path]:
        if self._jobs >= JOBS:
            self._cluster.close()
            self._cluster, self._options = start_cluster()
            self._jobs, self._made = 0, None
        if self._made is None or self._made[0] != json.dumps(rows):
            place = self._folder / str(self._environments)
            self._environments += 1
            place.mkdir()
            texts = [["<null>" if text is None else text for text in row] for row in rows]
            table = {"name": "t", "ddl": DDL, "rows": [[str(at), *row] for at, row in enumerate(texts)]}
            made = environment({"options": {}, "is_streaming": True, "tables": [table]}, place, self._options)
            made.executeSql("CREATE TABLE sink (n INT, found BOOLEAN) WITH ('connector' = 'print')")
            self._made = json.dumps(rows), made, place
        return self._made[1:]

    def plan(self, rows: list[list[str | None]], expression: str) -> dict[str, Any]:
        made, place = self.environment(rows)
        try:
            plan = made.compilePlanSql(f"INSERT INTO sink SELECT n, {expression} FROM t").asJsonString()
        except (Py4JJavaError, JavaException) as error:
            return {"refused": message(error)}
        return {"plan": json.loads(plan.replace(f"{place}/", "/in/"))}

    def values(self, rows: list[list[str | None]], expressions: list[str]) -> list[dict[str, Any]]:
        made, _ = self.environment(rows)
        self._jobs += 1
        try:
            found = changes(made.sqlQuery(f"SELECT n, {', '.join(expressions)} FROM t").execute())
        except (Py4JJavaError, JavaException) as error:
            if len(expressions) == 1:
                return [{"error": message(error)}]
            middle = len(expressions) // 2
            return [*self.values(rows, expressions[:middle]), *self.values(rows, expressions[middle:])]
        by_number = sorted((values for _, values in found), key=lambda values: int(values[0] or 0))
        return [{"values": [values[at + 1] for values in by_number]} for at in range(len(expressions))]


def main(folder: Path, given: Path, results: Path) -> None:
    cases = [json.loads(line) for line in given.read_text("utf-8").splitlines()]
    by_rows: dict[str, list[int]] = defaultdict(list)
    for number, case in enumerate(cases):
        by_rows[json.dumps(case["rows"])].append(number)
    evaluation = Evaluation(folder)
    found: dict[int, dict[str, Any]] = {}
    for text, numbers in by_rows.items():
        rows = json.loads(text)
        for number in numbers:
            found[number] = evaluation.plan(rows, cases[number]["expression"])
        planned = [number for number in numbers if "plan" in found[number]]
        for start in range(0, len(planned), AT_ONCE):
            part = planned[start : start + AT_ONCE]
            for number, one in zip(part, evaluation.values(rows, [cases[n]["expression"] for n in part]), strict=True):
                found[number].update(one)
            print(part[-1], len(cases), file=sys.stderr, flush=True)
    results.write_text("".join(json.dumps(found[number]) + "\n" for number in range(len(cases))), "utf-8")
    evaluation.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
