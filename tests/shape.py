"""Prints how the code is shaped. Nothing here has a limit and nothing fails: `make lint` shows it, judgement does the rest.

    .venv/bin/python -m tests.shape

- Three paths, run here: a batch in a columnar window, an acknowledgement in the checkpoint coordinator, a submission in the JobManager's
  machines. For each the files entered, the stays in them (calls that go into another file), and the returns to a file that was left before.
- Types for each fact that `docs/architecture.md` lists.
- The classes that have most optional fields (those that may be ``None``).
- Starts of clusters that the tests write down: each is several processes, and those in parametrized tests and loops count once.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("tidegate", "jobmanager", "taskmanager", "cli")


def main() -> None:
    """Prints the report."""
    for name, prepare in PATHS.items():
        files = stays_of(prepare())
        print(f"{name}: {len(set(files))} files, {len(files)} stays, {len(files) - len(set(files))} returns")
    print("types of a fact: " + ", ".join(f"{fact} {count}" for fact, count in types_per_fact().items()))
    print("optional fields: " + ", ".join(f"{name} {count}" for name, count in optional_fields().most_common(5)))
    print(f"starts of clusters in tests: {cluster_starts()}")


def stays_of(path: Callable[[], object]) -> list[str]:
    """Runs a path; returns the product's files in the order in which it went into them, with returns."""
    stack: list[str] = []
    stays: list[str] = []

    def follow(frame: FrameType, event: str, arg: object) -> None:
        file = frame.f_code.co_filename
        if not file.startswith(_OURS) or event not in ("call", "return"):
            return
        if event == "call":
            stack.append(file)
        elif stack:
            stack.pop()
        if stack and stays[-1:] != stack[-1:]:
            stays.append(stack[-1])

    sys.setprofile(follow)
    try:
        path()
    finally:
        sys.setprofile(None)
    return stays


_OURS = tuple(f"{ROOT / top}/" for top in PRODUCT)


def _columnar_window() -> Callable[[], object]:
    """The second batch of a window: what is made once is made."""
    import pyarrow as pa

    from tests.unit.taskmanager.operators.harness import spec, start
    from tidegate.records.batch import ArrowBatch

    aggregates = [("n", "count", None), ("s", "sum", "v")]
    options = {"size_ms": 1000, "offset_ms": 0, "keys": ["k"], "aggregates": aggregates, "input": "raw"}
    window = start(spec("columnar_window", options=options))
    rows = pa.RecordBatch.from_pydict({"k": list(range(100)), "v": list(range(100))})
    batch = ArrowBatch(rows, pa.array(range(100)))
    window.operator.process(batch, 0)
    return partial(window.operator.process, batch, 0)


def _acknowledgement() -> Callable[[], object]:
    """The last acknowledgement of a checkpoint."""
    from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, running_job, until_triggered
    from tidegate.jobmanager.machines.events import SubtaskAcknowledged
    from tidegate.model.checkpoint import CheckpointMetrics, SubtaskSnapshot
    from tidegate.model.ids import CheckpointId

    cluster = running_job(configuration=CHECKPOINTED)
    until_triggered(cluster, 1)
    *others, last = cluster.attempts()
    for attempt in others:
        cluster.acknowledge(attempt, 1)
    event = SubtaskAcknowledged(last, CheckpointId(1), SubtaskSnapshot(), CheckpointMetrics())
    return partial(cluster.machine.on, event, cluster.now_ms)


def _submission() -> Callable[[], object]:
    """A job of two vertices, as far as its slots are asked for."""
    from tests.unit.jobmanager.machines.cluster_kit import Cluster, two_stage
    from tidegate.jobmanager.machines.events import JobSubmitted

    cluster = Cluster()
    cluster.register("tm", 2)
    return partial(cluster.machine.on, JobSubmitted(two_stage(), {}, None), cluster.now_ms)


PATHS = {
    "a batch in a columnar window": _columnar_window,
    "an acknowledgement in the coordinator": _acknowledgement,
    "a submission in the machines": _submission,
}


def types_per_fact() -> dict[str, int]:
    """Returns the rows of the page's table, by fact."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("\n## The shapes of a fact\n")[2].partition("\n## ")[0]
    return dict(Counter(re.findall(r"^\| ([a-z ]+) \| `\w+` \|", section, re.MULTILINE)))


def optional_fields() -> Counter[str]:
    """Returns how many declared fields of each class of the product may be ``None``."""
    found: Counter[str] = Counter()
    for top in PRODUCT:
        for tree in _trees(ROOT / top):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    kinds = [ast.unparse(part.annotation) for part in node.body if isinstance(part, ast.AnnAssign)]
                    found[node.name] += sum("None" in kind.split(" | ") for kind in kinds)
    return found


def cluster_starts() -> int:
    """Returns how often the tests construct a ``Cluster`` of processes."""
    calls = (
        node
        for folder in ("e2e", "browser", "conformance")
        for tree in _trees(ROOT / "tests" / folder)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    )
    return sum(isinstance(call.func, ast.Name) and call.func.id == "Cluster" for call in calls)


def _trees(folder: Path) -> Iterator[ast.Module]:
    for path in folder.rglob("*.py"):
        if "/pb/" not in str(path):
            yield ast.parse(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
