"""``partition_custom`` in running subtasks, and operators whose id is given."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tests.unit.tidegate.datastream.graph_kit import make_env, numbers, same
from tidegate.common import Types
from tidegate.datastream import MapFunction, RuntimeContext
from tidegate.functions.interfaces import KeySelector, Partitioner
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import Partitioner as EdgePartitioner


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, since the path of a Unix socket may be 100 characters long."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield Path(path)


class ByRest(Partitioner):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.is_open = True

    def partition(self, key: Any, num_partitions: int) -> int:
        assert self.is_open
        return int(key) % num_partitions


class Tenth(KeySelector):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.by = 10

    def get_key(self, value: Any) -> Any:
        return value // self.by


class Place(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        return (value, self.index)


def run(world: str, directory: Path, partitioner: Any, key_selector: Any, sources: int = 2) -> InProcessJob:
    env = make_env(sources)
    env.enable_checkpointing(3_600_000)
    dealt = numbers(env).partition_custom(partitioner, key_selector)
    placed = dealt.map(Place(), Types.TUPLE([Types.LONG(), Types.INT()])).set_parallelism(3)
    placed.sink_to(CollectingSink(world))
    job = InProcessJob(env.build(), directory)
    job.start_failing()
    return job


@pytest.mark.parametrize(
    ("partitioner", "key_selector", "expected"),
    [
        (ByRest(), Tenth(), lambda value: value // 10 % 3),
        (lambda key, subtasks: key % subtasks, same, lambda value: value % 3),
    ],
)
def test_a_record_goes_where_the_partitioner_says(
    directory: Path, partitioner: Any, key_selector: Any, expected: Any, request: pytest.FixtureRequest
) -> None:
    job = run(request.node.name, directory, partitioner, key_selector)
    job.finish()
    assert sorted(committed(request.node.name)) == [[value, expected(value)] for value in range(1, 101)]


def test_a_target_that_is_not_there_fails_the_job(directory: Path) -> None:
    """One source, since of two either may be the first to fail, with a record of its own."""
    job = run("outside", directory, lambda key, subtasks: subtasks, same, sources=1)
    job.until(lambda: bool(job.errors), "the failure", failing=True)
    job.cut_off()
    assert "gave 3 for the record 1: there are 3 subtasks, 0 to 2" in job.errors[0].message


def test_custom_edges_are_aligned() -> None:
    assert EdgePartitioner.CUSTOM.forces_alignment


def test_refusals() -> None:
    env = make_env()
    with pytest.raises(InvalidJob, match="needs a Partitioner or a function"):
        numbers(env).partition_custom("no", same)  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match="Cannot override partitioning"):
        numbers(env).key_by(same).partition_custom(ByRest(), same)
    with pytest.raises(InvalidJob, match=r"before cache\(\)"):
        numbers(env).cache().set_parallelism(2)
    with pytest.raises(InvalidJob, match=r"iterate\(\) is not available"):
        numbers(env).iterate()


def test_a_uid_hash_is_the_operators_id() -> None:
    env = make_env()
    numbers(env).rebalance().map(same).uid("mapper").set_uid_hash("0123456789abcdef" * 2).print()
    assert env.build().graph.vertices[1].vertex_id == "0123456789abcdef" * 2
    with pytest.raises(InvalidJob, match="32 hexadecimal digits"):
        numbers(env).map(same).set_uid_hash("mapper")
