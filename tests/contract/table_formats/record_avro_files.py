"""Writes ``avro_files.json`` beside it: Avro files that Flink 2.3 writes of a table, what it reads of them, and of ours.

Run as ``record_avro.py`` is. ``python tests/contract/table_formats/record_avro_files.py FOLDER``: the folder has our files, ``NAME/part-0.avro``, as
``test_avro_files.py`` writes them. Rows are Flink's texts.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
from py4j.protocol import Py4JJavaError
from pyflink.util.exceptions import JavaException

from tests.contract.table_formats.avro_tables import TABLES
from tests.differential_tables.flink_side import API, OPTIONS, changes, configuration, message, start_cluster

RECORDING = Path(__file__).parent / "avro_files.json"


def environment(cluster: dict[str, str]) -> Any:
    options = {**OPTIONS, **cluster, "table.local-time-zone": "UTC"}
    settings = API.EnvironmentSettings.newInstance().withConfiguration(configuration(options)).inBatchMode()
    return API.TableEnvironment.create(settings.build())


def table(columns: str, folder: Path, options: dict[str, str]) -> str:
    given = "".join(f", 'avro.{key}' = '{text}'" for key, text in options.items())
    return f"CREATE TEMPORARY TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'avro'{given})"


def rows(made: Any) -> dict[str, Any]:
    try:
        return {"rows": sorted((row for _, row in changes(made.executeSql("SELECT * FROM t"))), key=str)}
    except (Py4JJavaError, JavaException) as error:
        return {"error": message(error).splitlines()[0]}


def written(case: dict[str, Any], folder: Path, cluster: dict[str, str]) -> dict[str, Any]:
    made = environment(cluster)
    try:
        made.executeSql(table(case["columns"], folder, case["options"]))
        getattr(made.executeSql(f"INSERT INTO t VALUES {', '.join(case['values'])}"), "await")()
    except (Py4JJavaError, JavaException) as error:
        return {**case, "refused": message(error)}
    (file,) = folder.rglob("part-*")
    return {**case, "file": base64.b64encode(file.read_bytes()).decode(), **rows(made)}


def read(case: dict[str, Any], folder: Path, cluster: dict[str, str]) -> dict[str, Any]:
    made = environment(cluster)
    made.executeSql(table(case["columns"], folder, case["options"]))
    (file,) = folder.rglob("part-*")
    return {**case, "file": base64.b64encode(file.read_bytes()).decode(), **rows(made)}


def main(ours: Path | None) -> None:
    cluster, options = start_cluster()
    with tempfile.TemporaryDirectory() as folder:
        found = {"flink": [written(case, Path(folder, case["name"]), options) for case in TABLES]}
    if ours is not None:
        found["ours"] = [read(case, ours / case["name"], options) for case in TABLES if (ours / case["name"]).exists()]
    cluster.close()
    RECORDING.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
