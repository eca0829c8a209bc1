"""Records what Flink's CEP operator finds: ``python -m tests.contract.cep.record``, with a JDK and Maven; takes a minute.

Flink comes from the package index (``tests/servers/flink_environment.py``), its harness for operators from Maven. Cases with very many matches, and
those in which Flink's operator fails, are left out.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

from tests.contract.cep.cases import cases
from tests.contract.cep.patterns import MATCHES
from tests.servers.flink_harness import found_by

HERE = Path(__file__).parent
LARGEST = 6_000
"""Characters of what is found in a case."""


def main() -> None:
    made = cases()
    found = found_by(HERE / "RecordMatches.java", made, 300)
    kept = [
        case | one
        for case, one in zip(made, found, strict=True)
        if "failed" not in one and len(json.dumps(one)) <= LARGEST
    ]
    lines = "[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in kept) + "\n]\n"
    MATCHES.write_bytes(lzma.compress(lines.encode()))
    failed = sum("failed" in one for one in found)
    print(len(kept), "of", len(made), "cases,", sum("refused" in one for one in kept), "refused,", failed, "failed")


if __name__ == "__main__":
    main()
