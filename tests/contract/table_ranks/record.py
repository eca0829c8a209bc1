"""Writes ``ranks.json``: the plans and changes of Flink 2.3 for the statements of ``cases.py``: ``python -m tests.contract.table_ranks.record``."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.contract.table_ranks.cases import cases
from tests.servers.flink_environment import flink_environment

RECORDED = Path(__file__).with_name("ranks.json")
FLINK_SIDE = Path(__file__).parents[2] / "differential_tables" / "flink_side.py"


def main() -> None:
    made = cases()
    with tempfile.TemporaryDirectory() as directory:
        given, written = Path(directory, "cases.jsonl"), Path(directory, "results.jsonl")
        given.write_text("".join(json.dumps(one) + "\n" for one in made))
        done = flink_environment().run(str(FLINK_SIDE), directory, str(given), str(written), limit_s=900)
        assert done.returncode == 0, done.stderr[-3000:]
        found = [json.loads(line) for line in written.read_text().splitlines()]
    recorded = [{"query": case["query"], **one} for case, one in zip(made, found, strict=True)]
    RECORDED.write_text("[\n" + ",\n".join(json.dumps(one) for one in recorded) + "\n]\n", "utf-8")


if __name__ == "__main__":
    main()
