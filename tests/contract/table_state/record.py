"""Records what Flink 2.3's operators of tables emit: ``python -m tests.contract.table_state.record``, with a JDK and Maven; takes some minutes.
A case that is there already is not recorded again.

Flink comes from the package index (``tests/servers/flink_environment.py``), its harness for operators from Maven: there the clock is set by hand, so that what
expires does so at its millisecond.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

from tests.contract.table_state.cases import cases
from tests.servers.flink_harness import found_by

HERE = Path(__file__).parent
RECORDING = HERE / "operators.json.xz"


def recorded() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(lzma.decompress(RECORDING.read_bytes()))
    return found


def same(one: dict[str, Any]) -> str:
    """Returns what tells a case from others."""
    return json.dumps([one[name] for name in ("name", "query", "tables", "options", "runs")])


def main() -> None:
    done = {same(one): one for one in recorded()} if RECORDING.exists() else {}
    every = cases()
    made = [one for one in every if same(one) not in done]
    found = found_by(HERE / "RecordOperators.java", made, 1500)
    done |= {same(case): case | one for case, one in zip(made, found, strict=True) if "failed" not in one}
    kept = [done[same(one)] for one in every if same(one) in done]
    RECORDING.write_bytes(lzma.compress(json.dumps(kept).encode(), preset=9))
    print(len(kept), "cases,", len(every) - len(kept), "failed")


if __name__ == "__main__":
    main()
