"""Writes ``partitions.json`` beside it: the directories and lines that Flink 2.3 writes for tables of files with partitions, and what it reads of them.

Run by the Python of a Flink environment (``tests/servers/flink_environment.py``), in the root of the repository, as a script. Values are as ``VALUES`` has
them. ``tree``: lines by directory; ``rows``: Flink's texts of what it read of its own files; ``unread``: why it could not.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
from py4j.protocol import Py4JJavaError
from pyflink.util.exceptions import JavaException

from tests.differential_tables.flink_side import API, OPTIONS, changes, configuration, message, start_cluster

RECORDING = Path(__file__).parent / "partitions.json"
TYPES: dict[str, list[str]] = {
    "STRING": ["'a'", "'2020-01-01'", "'a b/c:d=e%f#g?h\"i''j*k[l]m{n}o^p\\q&r+s~t@u,v;w'", "''", "CAST(NULL AS STRING)", "'ä😀'", "'__DEFAULT_PARTITION__'"],
    "CHAR(3)": ["'abc'"],
    "BOOLEAN": ["TRUE", "FALSE"],
    "TINYINT": ["7"],
    "SMALLINT": ["-7"],
    "INT": ["1", "-5", "CAST(NULL AS INT)"],
    "BIGINT": ["1234567890123"],
    "FLOAT": ["1.25", "1e10"],
    "DOUBLE": ["1.5", "1e30", "3"],
    "DECIMAL(10, 2)": ["1.50", "2", "-0.05"],
    "DATE": ["DATE '2020-01-02'", "DATE '1969-12-31'"],
    "TIME": ["TIME '01:02:03'"],
    "TIMESTAMP(3)": ["TIMESTAMP '2020-01-02 03:04:05.120'", "TIMESTAMP '2020-01-02 03:04:00'", "TIMESTAMP '2020-01-02 03:04:05'"],
    "TIMESTAMP(6)": ["TIMESTAMP '2020-01-02 03:04:05.120001'", "TIMESTAMP '2020-01-02 00:00:00.001'", "TIMESTAMP '1969-12-31 23:59:59.999999'"],
    "TIMESTAMP_LTZ(3)": ["CAST(TIMESTAMP '2020-01-02 03:04:05.120' AS TIMESTAMP_LTZ(3))"],
}  # fmt: skip


def record(type: str, values: list[str], folder: Path, cluster: dict[str, str]) -> dict[str, Any]:
    options = {**OPTIONS, **cluster, "table.local-time-zone": "UTC"}
    settings = API.EnvironmentSettings.newInstance().withConfiguration(configuration(options)).inBatchMode()
    made = API.TableEnvironment.create(settings.build())
    made.executeSql(
        f"CREATE TABLE t (v INT, p {type}, w STRING, q INT) PARTITIONED BY (q, p) WITH ('connector' = 'filesystem', 'path' = '{folder}', "
        "'format' = 'json')"
    )
    rows = ", ".join(f"({at}, CAST({value} AS {type}), 'w', {at % 2})" for at, value in enumerate(values))
    getattr(made.executeSql(f"INSERT INTO t VALUES {rows}"), "await")()
    tree: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("part-*")):
        tree.setdefault(str(path.parent.relative_to(folder)), []).extend(path.read_text("utf-8").splitlines())
    found: dict[str, Any] = {
        "type": type,
        "values": values,
        "tree": {name: sorted(lines) for name, lines in tree.items()},
    }
    try:
        return {**found, "rows": sorted(row for _, row in changes(made.executeSql("SELECT * FROM t")))}
    except (Py4JJavaError, JavaException) as error:
        return {**found, "unread": message(error).splitlines()[0]}


def main() -> None:
    cluster, options = start_cluster()
    with tempfile.TemporaryDirectory() as folder:
        done = [
            record(type, values, Path(folder) / str(number), options)
            for number, (type, values) in enumerate(TYPES.items())
        ]
    cluster.close()
    RECORDING.write_text("[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in done) + "\n]\n", "utf-8")


if __name__ == "__main__":
    main()
