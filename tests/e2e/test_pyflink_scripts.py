"""Scripts as one finds them in the world print here what they print in PyFlink, when ``pyflink`` is replaced by ``tidegate`` in their imports.

What PyFlink prints is recorded beside them (``pyflink_scripts/recorded.txt``), and a slow test holds the record against a real Flink:

    python -m tests.e2e.test_pyflink_scripts     records it anew

Lines are compared as bags, without the numbers of subtasks: their order, and which subtask has a key, is free.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.servers import run_scripts
from tests.servers.flink_environment import FlinkEnvironment, flink_environment

SCRIPTS = Path(__file__).parent / "pyflink_scripts"
RECORDED = SCRIPTS / "recorded.txt"
BESIDE = "shop_model"
"""A module that a script imports."""
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.py") if path.stem != BESIDE)
LIMIT_S = 280
FLINK_LIMIT_S = 900
_SUBTASK = re.compile(r"^(?:(.+):)?\d+> ")

Outputs = dict[str, Counter[str]]


def outputs_of(text: str) -> Outputs:
    found: Outputs = {}
    lines: Counter[str] = Counter()
    for line in text.splitlines():
        if line.startswith("=== "):
            lines = found.setdefault(line[4:], Counter())
        elif line:
            lines[_SUBTASK.sub(lambda match: f"{match[1]}> " if match[1] else "", line)] += 1
    return found


def given_by_flink(flink: FlinkEnvironment) -> Outputs:
    done = flink.run(str(Path(run_scripts.__file__)), "pyflink", str(SCRIPTS), *NAMES, limit_s=FLINK_LIMIT_S)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return outputs_of(done.stdout)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """By all scripts, in one process and on one embedded cluster."""
    directory = tmp_path_factory.mktemp("scripts")
    for path in SCRIPTS.glob("*.py"):
        text = re.sub(r"^(\s*)from pyflink\b", r"\1from tidegate", path.read_text(encoding="utf-8"), flags=re.M)
        (directory / path.name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(Path(run_scripts.__file__)), "tidegate", str(directory), *NAMES],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return outputs_of(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_prints_what_it_prints_in_pyflink(name: str, given: Outputs) -> None:
    recorded = outputs_of(RECORDED.read_text(encoding="utf-8"))
    assert sum(recorded[name].values()) >= 5
    assert given[name] == recorded[name]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_record_is_what_flink_prints(flink: FlinkEnvironment) -> None:
    assert given_by_flink(flink) == outputs_of(RECORDED.read_text(encoding="utf-8"))


def _record() -> None:
    outputs = given_by_flink(flink_environment())
    parts = ["\n".join([f"=== {name}", *sorted(outputs[name].elements())]) for name in (*NAMES, "end")]
    RECORDED.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _record()
