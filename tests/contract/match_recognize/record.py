"""Records what Flink 2.3 makes of the statements of ``cases.py``, with their plans: ``python -m tests.contract.match_recognize.record``; takes some minutes."""

from __future__ import annotations

import json
import lzma
import tempfile
from pathlib import Path

from tests.contract.match_recognize.cases import cases
from tests.servers.flink_environment import flink_environment

RECORDED = Path(__file__).with_name("recorded.json.xz")
FLINK_SIDE = Path(__file__).parents[2] / "differential_tables" / "flink_side.py"
AT_ONCE = 60
"""A mini cluster stops answering after some 200 jobs."""


def main() -> None:
    made, found = cases(), []
    for start in range(0, len(made), AT_ONCE):
        with tempfile.TemporaryDirectory() as directory:
            given, written = Path(directory, "cases.jsonl"), Path(directory, "results.jsonl")
            given.write_text("".join(json.dumps(one) + "\n" for one in made[start : start + AT_ONCE]))
            flink_environment().run(str(FLINK_SIDE), directory, str(given), str(written), limit_s=900)
            found += [json.loads(line) for line in written.read_text().splitlines()]
    recorded = [
        {"query": case["query"], "rows": case["tables"][0]["rows"], **one}
        for case, one in zip(made, found, strict=True)
    ]
    RECORDED.write_bytes(lzma.compress(json.dumps(recorded, separators=(",", ":")).encode()))


if __name__ == "__main__":
    main()
