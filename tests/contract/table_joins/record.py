"""Writes ``joins.json.xz``: what Flink 2.3 emits at each step of the joins of ``cases.py``, and their plans.

    python -m tests.contract.table_joins.record

``changes``: of each step, and of the end of event time, the changes that came, sorted: a join has no order for the rows that one row or watermark gives.
Each case ran twice with the same changes, or is said to have differed. A case that is there already is not recorded again.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.contract.table_joins.cases import AT_ONCE, cases

HERE = Path(__file__).parent
RECORDING = HERE / "joins.json.xz"


def recorded() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(lzma.decompress(RECORDING.read_bytes()))
    return found


def same(one: dict[str, Any]) -> str:
    """Returns what tells a case from others."""
    return json.dumps([one["name"], one["query"], one["steps"], one["options"]])


def changes(printed: Sequence[str], number: int, steps: int) -> list[list[list[list[Any]]]]:
    """By run and step those of a case, from lines ``case3> +I[1, null]`` between ``step N`` and ``run PART.N``."""
    found: list[dict[str, list[Any]]] = []
    step = part = ""
    for line in printed:
        if line.startswith("run "):
            part = line.removeprefix("run ").partition(".")[0]
            if int(part) == number // AT_ONCE:
                found.append(defaultdict(list))
        elif line.startswith("step "):
            step = line.removeprefix("step ")
        elif line.startswith(f"case{number}> "):
            kind, _, values = line.partition("> ")[2].rstrip("]").partition("[")
            found[-1][step].append([kind, [None if value == "null" else int(value) for value in values.split(", ")]])
    steps_of = [*map(str, range(steps)), "end"]
    return [[sorted(run[name], key=repr) for name in steps_of] for run in found]


def run(given: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases, which have the same options, with what Flink made of them; without those whose runs differed."""
    from tests.servers.flink_environment import flink_environment

    environment = flink_environment()
    with tempfile.TemporaryDirectory() as folder:
        cases_file, results, tables = Path(folder) / "cases", Path(folder) / "results", Path(folder) / "tables"
        tables.mkdir()
        cases_file.write_text("".join(json.dumps(one) + "\n" for one in given), "utf-8")
        with (Path(folder) / "printed").open("w+", encoding="utf-8") as printed:
            subprocess.run(
                [str(environment.python), str(HERE / "flink_side.py"), str(tables), str(cases_file), str(results)],
                env=environment.variables(),
                stdout=printed,
                timeout=1500,
                check=False,
            )
            printed.seek(0)
            lines = printed.read().splitlines()
        found = []
        for number, (one, line) in enumerate(zip(given, results.read_text("utf-8").splitlines(), strict=False)):
            result = json.loads(line)
            if "refused" not in result:
                first, *others = changes(lines, number, len(one["steps"]))
                if any(other != first for other in others):
                    print("differed:", one["name"], file=sys.stderr)
                    continue
                result["changes"] = first
            found.append({**one, **result})
        return found


def record() -> None:
    done = {same(one): one for one in recorded()} if RECORDING.exists() else {}
    every = list(cases())
    by_options: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in every:
        if same(one) not in done:
            by_options[json.dumps(one["options"])].append(one)
    for chosen in by_options.values():
        done.update({same(one): one for one in run(chosen)})
        kept = json.dumps([done[same(one)] for one in every if same(one) in done]).encode()
        RECORDING.write_bytes(lzma.compress(kept, preset=9))


if __name__ == "__main__":
    record()
