"""Runs ``INSERT`` statements through Flink 2.3 into tables that print. Run by the Python of a Flink environment: ``flink_side.py CASES RESULTS``.

A printed row has ``caseN> `` in front of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
from py4j.protocol import Py4JJavaError
from pyflink.util.exceptions import JavaException

from tests.differential_tables.flink_side import API, OPTIONS, configuration, message, start_cluster


def run(number: int, case: dict[str, Any], cluster: dict[str, str]) -> dict[str, Any]:
    settings = API.EnvironmentSettings.newInstance().withConfiguration(
        configuration({**OPTIONS, **cluster, **case["options"]})
    )
    made = API.TableEnvironment.create(
        (settings.inStreamingMode() if case["is_streaming"] else settings.inBatchMode()).build()
    )
    made.executeSql(
        f"CREATE TABLE sink ({case['columns']}) WITH ('connector' = 'print', 'print-identifier' = 'case{number}')"
    )
    statement = f"INSERT INTO sink {case['query']}"
    try:
        plan = json.loads(made.compilePlanSql(statement).asJsonString())
        result = made.executeSql(statement)
    except (Py4JJavaError, JavaException) as error:
        return {"refused": message(error)}
    try:
        getattr(result, "await")()
    except (Py4JJavaError, JavaException) as error:
        return {"plan": plan, "error": message(error)}
    return {"plan": plan}


def main(cases: Path, results: Path) -> None:
    cluster, options = start_cluster()
    with results.open("w", encoding="utf-8") as file:
        for number, line in enumerate(cases.read_text("utf-8").splitlines()):
            file.write(json.dumps(run(number, json.loads(line), options)) + "\n")
            file.flush()
    cluster.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
