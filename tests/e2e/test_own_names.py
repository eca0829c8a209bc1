"""A job beside a ``cli.py``, a ``jobmanager.py``, a ``taskmanager.py`` and a ``proto/`` of its own runs, however it is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

JOB = """
import cli, jobmanager, proto, taskmanager
from tidegate.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([1, 2, 3]).map(jobmanager.add).map(taskmanager.double)
numbers.map(lambda x: f"{cli.WORD} {x + proto.THREE}").print()
env.execute("own names")
import cli
print("still", cli.WORD)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "proto").mkdir()
    (tmp_path / "proto" / "__init__.py").write_text("THREE = 3\n")
    (tmp_path / "cli.py").write_text("WORD = 'mine'\n")
    (tmp_path / "jobmanager.py").write_text("def add(x): return x + 1\n")
    (tmp_path / "taskmanager.py").write_text("def double(x): return x * 2\n")
    (tmp_path / "job.py").write_text(JOB)
    return tmp_path


@pytest.mark.parametrize(
    "command", [["job.py"], [str(Path(sys.executable).parent / "tidegate"), "run", "--local", "job.py"]]
)
def test_a_job_beside_modules_named_like_ours(folder: Path, command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    for value in (7, 9, 11):
        assert f"mine {value}" in printed
    assert "still mine" in printed
