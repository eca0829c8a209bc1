"""A case through Flink and through ours."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.differential_tables.cases import Case
from tests.differential_tables.tables import NULL
from tests.servers.flink_environment import flink_environment
from tests.unit.tidegate.table._execution.plan_run import PlanRun, folded
from tidegate.functions.sql.scalar import EvaluationError
from tidegate.model.errors import UserError
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.exec_node_graph import decode_plan

Change = tuple[str, tuple[str | None, ...]]
_AT_ONCE = 60
"""A mini cluster of Flink's stops answering after some 200 jobs."""
_DEFECTS = re.compile(
    "ClassCastException|NullPointerException|CompileException|implicit type conversion|is not an orderable data type|"
    "Could not find an implementation method 'merge'"
)
"""Why statements that Flink plans fail there whatever their rows are."""
_LIMIT_S = 60.0
"""For each statement on a busy machine."""


@dataclass(frozen=True)
class Judged:
    """A case with what Flink gave. ``plan``: ``None`` where it refused the statement; ``error``: why it failed when it ran."""

    case: Case
    plan: dict[str, Any] | None
    changes: Sequence[Change]
    error: str | None


def judged(cases: Sequence[Case]) -> list[Judged]:
    """What Flink gives."""
    return [one for start in range(0, len(cases), _AT_ONCE) for one in _at_once(cases[start : start + _AT_ONCE])]


def _at_once(cases: Sequence[Case]) -> list[Judged]:
    with tempfile.TemporaryDirectory() as folder:
        given, results = Path(folder) / "cases.jsonl", Path(folder) / "results.jsonl"
        given.write_text("".join(f"{_line(case)}\n" for case in cases), "utf-8")
        script = Path(__file__).with_name("flink_side.py")
        done = flink_environment().run(
            str(script), folder, str(given), str(results), limit_s=60 + _LIMIT_S * len(cases)
        )
        assert done.returncode == 0, done.stderr[-3000:]
        lines = map(json.loads, results.read_text("utf-8").splitlines())
        return [_judged(case, result) for case, result in zip(cases, lines, strict=True)]


def _line(case: Case) -> str:
    tables = [{"name": table.name, "ddl": table.ddl, "text": table.text} for table in case.tables]
    return json.dumps({**asdict(case), "tables": tables})


def _judged(case: Case, result: dict[str, Any]) -> Judged:
    if "refused" in result:
        return Judged(case, None, (), result["refused"])
    return Judged(
        case,
        result["plan"],
        [(kind, tuple(values)) for kind, values in result.get("changes", ())],
        result.get("error"),
    )


def check(one: Judged) -> bool:
    """Raises ``AssertionError`` where ours differs, and what ours raises. ``False``: Flink refused the statement, or failed by a defect of its own."""
    case = one.case
    if one.plan is None or (one.error is not None and _DEFECTS.search(one.error)) or _forgets_rows(one.plan):
        return False
    files = {
        f"{table.name}.csv": [[None if cell == NULL else cell for cell in row] for row in table.rows]
        for table in case.tables
    }
    configuration = {"pipeline.auto-watermark-interval": "1 ms"}
    plan = decode_plan(json.dumps(one.plan))
    try:
        made = PlanRun(plan, configuration=configuration, zone=case.options["table.local-time-zone"])
    except UnsupportedPlan:
        if one.error is None:
            raise
        return True
    with made as run:
        try:
            kinds = {f"{table.name}.csv": table.kinds for table in case.tables if table.kinds}
            one_by_one = case.is_streaming and "table.exec.mini-batch.enabled" not in case.options
            run.push_files(files, kinds, one_by_one=one_by_one)
        except (EvaluationError, UserError) as error:
            if "is NOT NULL, however, a null value is being written" in str(error):
                return False  # Flink's rows were collected, which no sink's columns check
            if one.error is None:
                raise AssertionError(f"{_shown(case)}\nfails here: {error}") from error
            return True
        found = run.changes()
    assert not one.error, f"{_shown(case)}\nfails in Flink, not here: {one.error}\nours: {found}"
    given = list(map(_comparable, one.changes))
    found = list(map(_comparable, found))
    if case.is_exact:
        assert found == given, _difference(case, given, found)
    else:
        assert folded(found) == folded(given), _difference(case, folded(given), folded(found))
    return True


def _forgets_rows(plan: dict[str, Any]) -> bool:
    """Whether Flink's top-N marks rows of its state with the kind by which it emits them, and does not find them again when they are taken back."""
    return any(
        node["type"] in ("stream-exec-rank_1", "stream-exec-sort-limit_1")
        and node["rankStrategy"]["type"] == "Retract"
        and node["rankRange"].get("start", 1) > 1
        and not node["outputRowNumber"]
        for node in plan["nodes"]
    )


def _comparable(change: Change) -> Change:
    """With the signs of maps in order: their entries have none."""
    kind, row = change
    return kind, tuple("".join(sorted(text)) if text and text.startswith("{") and "=" in text else text for text in row)


def _shown(case: Case) -> str:
    tables = "\n".join(
        f"{table.ddl}\n" + "\n".join(map(str, table.rows)) for table in case.tables if f" {table.name}" in case.query
    )
    return f"seed {case.seed} ({case.kind}, {'streaming' if case.is_streaming else 'batch'}, {dict(case.options)}):\n{case.query}\n{tables}"


def _difference(case: Case, theirs: Sequence[object], ours: Sequence[object]) -> str:
    lines = [f"flink {a}\nours  {b}" for a, b in zip(theirs, ours, strict=False) if a != b][:4]
    return f"{_shown(case)}\n{len(theirs)} in Flink, {len(ours)} here\n" + "\n".join(lines)
