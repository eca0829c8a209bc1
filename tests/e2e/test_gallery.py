"""The programs of the gallery (``examples/gallery``), each run as its page says, on one cluster: the result is what another way of computing gives."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.cluster import REPOSITORY, Cluster
from tests.e2e.gallery_answers import ANSWERS, shown
from tests.own import own_signing, own_transport
from tidegate.cli.client import JobManagerClient
from tidegate.cli.executor import ClusterExecutor
from tidegate.datastream._graph.executor import installed

GALLERY = REPOSITORY / "examples" / "gallery"
PROGRAMS = sorted(path.stem for path in GALLERY.glob("*.py"))


@pytest.fixture
def executor(cluster: Cluster) -> Iterator[ClusterExecutor]:
    with closing(JobManagerClient(cluster.address, transport=own_transport(), signing=own_signing())) as client:
        yield ClusterExecutor(client)


def test_every_program_has_an_answer() -> None:
    assert sorted(ANSWERS) == PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_writes_the_right_rows(
    name: str, executor: ClusterExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, rate = tmp_path / name, ANSWERS[name].rows_per_second
    given = ["--directory", str(directory), "--rows-per-second", str(rate)]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *given])
    with installed(executor, {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}):
        runpy.run_path(str(GALLERY / f"{name}.py"), run_name="__main__")
    found, right = ANSWERS[name].rows(directory), ANSWERS[name].right(directory)
    assert len(right) >= ANSWERS[name].least
    assert len(found) == len(right)
    assert found == right
    texts = {tuple(map(str, row)) for row in found}
    assert shown(name)
    assert [row for row in shown(name) if not any(text[: len(row)] == row for text in texts)] == []
