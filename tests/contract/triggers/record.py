"""Records what Flink's window operator emits: ``python -m tests.contract.triggers.record``, with a JDK and Maven; takes a minute.

Flink comes from the package index (``tests/servers/flink_environment.py``), its harness for operators from Maven.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.contract.triggers.cases import cases
from tests.servers.flink_harness import found_by

HERE = Path(__file__).parent
FIRINGS = HERE / "flink_2.3_firings.json"


def main() -> None:
    found = found_by(HERE / "RecordFirings.java", cases(), 300)
    FIRINGS.write_text("[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in found) + "\n]\n")


if __name__ == "__main__":
    main()
