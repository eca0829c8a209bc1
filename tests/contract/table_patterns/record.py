"""Writes ``patterns.json.xz``: what Flink 2.3 makes of the expressions of ``cases.py``, and their plans.

python -m tests.contract.table_patterns.record
"""

from __future__ import annotations

import json
import lzma
import tempfile
from pathlib import Path
from typing import Any

from tests.contract.table_patterns.cases import cases

HERE = Path(__file__).parent
RECORDING = HERE / "patterns.json.xz"


def recorded() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(lzma.decompress(RECORDING.read_bytes()))
    return found


def record() -> None:
    from tests.servers.flink_environment import flink_environment

    every = list(cases())
    with tempfile.TemporaryDirectory() as folder:
        given, results, tables = Path(folder) / "cases", Path(folder) / "results", Path(folder) / "tables"
        tables.mkdir()
        given.write_text("".join(json.dumps(one) + "\n" for one in every), "utf-8")
        ran = flink_environment().run(str(HERE / "flink_side.py"), str(tables), str(given), str(results), limit_s=1500)
        assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
        lines = results.read_text("utf-8").splitlines()
    found = [{**one, **json.loads(line)} for one, line in zip(every, lines, strict=True)]
    RECORDING.write_bytes(lzma.compress(json.dumps(found, ensure_ascii=False).encode(), preset=9))


if __name__ == "__main__":
    record()
