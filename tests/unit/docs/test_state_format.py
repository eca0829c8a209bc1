"""docs/state-format.md is enough: its own lines, with nothing of tidegate, read a real checkpoint; the reader agrees."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.unit.docs.documented import PAGE, code_of
from tests.unit.taskmanager.runtime import test_unaligned as unaligned_job
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tests.unit.tidegate.state_reader.real_checkpoint import KEYS, two_checkpoints, write_manifest
from tidegate.model.checkpoint import Alignment
from tidegate.state_reader import open_checkpoint
from tidegate.state_reader.channels import CHANNEL_COLUMNS


@pytest.fixture(scope="module", params=["0", "20kb"], ids=["files", "inline"])
def directory(request: pytest.FixtureRequest) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield two_checkpoints(Path(path), f"format-{request.param}", inline_threshold=request.param)[1]


@pytest.fixture
def documented() -> dict[str, Any]:
    """The names that the page's first example defines."""
    assert "tidegate." not in code_of("pyarrow")
    names: dict[str, Any] = {}
    exec(code_of("pyarrow"), names)
    return names


def without_types(table: pa.Table) -> pa.Table:
    return table.select([name for name in table.schema.names if not name.endswith("_type")])


def records_in(table: pa.Table) -> int:
    """Of data in flight. A watermark behind the last record of a channel has a row of its own, with nulls for the record."""
    first = next((name for name in table.schema.names if name not in CHANNEL_COLUMNS), None)
    return 0 if first is None else table.num_rows - int(table[first].null_count)


def test_plain_pyarrow_reads_all_keyed_state(directory: str, documented: dict[str, Any]) -> None:
    read_state: Callable[[str, str, str], pa.Table] = documented["read_state"]
    checkpoint = open_checkpoint(directory)
    compared = 0
    for operator in checkpoint.operators:
        for state in operator.states:
            if state.is_keyed:
                ours = without_types(checkpoint.table_of(state))
                theirs = read_state(directory, operator.title, state.name)
                assert theirs.sort_by("key_group").num_rows == ours.num_rows == checkpoint.rows_in(state)
                assert sorted(map(str, theirs.to_pylist())) == sorted(map(str, ours.to_pylist()))
                compared += 1
    assert compared == 7


def test_plain_pyarrow_reads_operator_state(directory: str, documented: dict[str, Any]) -> None:
    elements = documented["read_state"](directory, "rows", "splits")["element"].to_pylist()
    splits = [msgspec.msgpack.decode(element) for element in elements]
    assert sorted(identity for identity, _, _, _ in splits) == ["0-499999", "500000-999999"]
    assert all(first < position < end and done is False for _, (first, end), position, done in splits)
    read = sum(position - first for _, (first, _), position, _ in splits)
    counts = documented["read_state"](directory, "remember", "count")["value"].to_pylist()
    assert sum(counts) == read


def test_duckdb_queries_it(directory: str, documented: dict[str, Any]) -> None:
    names = {**documented, "directory": directory}
    exec(code_of("duckdb"), names)
    checkpoint = open_checkpoint(directory)
    assert sorted(name for name, _, _ in names["operators"]) == sorted(o.described.name for o in checkpoint.operators)
    values = checkpoint.table("remember", "count")["value"].to_pylist()
    assert names["totals"] == [(KEYS, sum(values), max(values))]


def test_the_documented_check_finds_damage(directory: str, documented: dict[str, Any], tmp_path: Path) -> None:
    content = (Path(directory) / "_metadata").read_bytes()
    (tmp_path / "_metadata").write_bytes(content.replace(b'"parallelism":2', b'"parallelism":3', 1))
    with pytest.raises(AssertionError, match="damaged"):
        documented["read_metadata"](str(tmp_path))


def test_every_column_and_kind_of_a_real_checkpoint_is_explained(directory: str) -> None:
    checkpoint = open_checkpoint(directory)
    for operator in checkpoint.operators:
        for state in operator.states:
            assert f"`{checkpoint.kind_of(state)}`" in PAGE
            for column in without_types(checkpoint.table_of(state)).schema.names:
                generic = re.sub(r"\..*", ".<column>", column)
                assert f"`{generic}`" in PAGE or column == "subtask", column


def test_plain_pyarrow_reads_data_in_flight(documented: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        running = InProcessJob(unaligned_job.build("documented", 2), Path(path), alignment=Alignment.UNALIGNED)
        running.start()
        location = write_manifest(running, running.checkpoint())
        unaligned_job.PACES["documented"].released.set()
        running.cancel()
        exec(code_of("in-flight"), documented)
        compared = 0
        for operator in open_checkpoint(location).operators:
            theirs = documented["read_in_flight"](location, operator.title)
            ours = [(c, s.name.rpartition(".")[2]) for s in operator.states for c in s.channels]
            assert len(theirs) == len(ours)
            rows = sum(table.num_rows for *_, table in theirs)
            states = [state for state in operator.states if state.channels]
            assert rows == sum(records_in(open_checkpoint(location).table_of(state)) for state in states)
            compared += rows
        assert compared > 0
    for column in CHANNEL_COLUMNS:
        assert f"`{column}`" in PAGE
