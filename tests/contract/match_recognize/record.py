"""Records what Flink 2.3 makes of the statements of ``cases.py``, with their plans: ``python -m tests.contract.match_recognize.record``; takes some minutes.

With ``--chosen`` only the statements that are not made by chance, with ``--grouped`` only those with SUBSET, RUNNING and FINAL.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.contract.match_recognize.cases import cases, chosen, grouped
from tests.servers.flink_environment import flink_environment

RECORDED, CHOSEN, GROUPED = (Path(__file__).with_name(f"{name}.json.xz") for name in ("recorded", "chosen", "grouped"))
FLINK_SIDE = Path(__file__).parents[2] / "differential_tables" / "flink_side.py"
AT_ONCE = 60
"""A mini cluster stops answering after some 200 jobs."""


def main() -> None:
    _record(grouped(), GROUPED)
    if "--grouped" not in sys.argv:
        _record(chosen(), CHOSEN)
    if not {"--chosen", "--grouped"}.intersection(sys.argv):
        _record(cases(), RECORDED)


def _record(made: list[dict[str, Any]], file: Path) -> None:
    found: list[dict[str, Any]] = []
    for start in range(0, len(made), AT_ONCE):
        with tempfile.TemporaryDirectory() as directory:
            given, written = Path(directory, "cases.jsonl"), Path(directory, "results.jsonl")
            given.write_text("".join(json.dumps(_given(one)) + "\n" for one in made[start : start + AT_ONCE]))
            done = flink_environment().run(str(FLINK_SIDE), directory, str(given), str(written), limit_s=900)
            assert done.returncode == 0, done.stderr[-3000:]
            found += [json.loads(line) for line in written.read_text().splitlines()]
    recorded = [
        {"query": case["query"], "rows": case["tables"][0]["rows"], **one}
        for case, one in zip(made, found, strict=True)
    ]
    file.write_bytes(lzma.compress(json.dumps(recorded, separators=(",", ":")).encode()))


def _given(case: dict[str, Any]) -> dict[str, Any]:
    """With the text of each table's file."""
    tables = [{**table, "text": "".join(f"{','.join(row)}\n" for row in table["rows"])} for table in case["tables"]]
    return {**case, "tables": tables}


if __name__ == "__main__":
    main()
