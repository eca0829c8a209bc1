"""Resources of a slot sharing group are in the job graph, with how many subtasks share them."""

from __future__ import annotations

import pytest

from tests.unit.tidegate.datastream.graph_kit import make_env, numbers, same
from tidegate.datastream import DataStream, SlotSharingGroup, StreamExecutionEnvironment
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import SlotResources
from tidegate.wire.convert import graph_from_pb, graph_to_pb

MIB = 1 << 20


def group(name: str = "models", cores: float = 2.0) -> SlotSharingGroup:
    builder = SlotSharingGroup.builder(name).set_cpu_cores(cores).set_task_heap_memory_mb(512)
    return builder.set_managed_memory_mb(128).set_external_resource("gpu", 1.0).build()


def resources_of(env: StreamExecutionEnvironment) -> dict[str, SlotResources | None]:
    """As the JobManager receives them."""
    job = graph_from_pb(graph_to_pb(env.build().graph))
    return {vertex.name: vertex.slot_resources for vertex in job.vertices}


def mapped(env: StreamExecutionEnvironment) -> DataStream:
    return numbers(env).map(same)


def test_they_are_those_of_each_vertex_in_the_group() -> None:
    env = make_env().disable_operator_chaining()
    mapped(env).slot_sharing_group(group()).map(same).set_parallelism(1).name("Second").print()
    found = resources_of(env)
    wanted = SlotResources("models", 3, 2.0, 512 * MIB, 0, 128 * MIB, {"gpu": 1.0})
    assert found.pop("Source: numbers") is None
    assert set(found) == {"Map", "Second", "Sink: Print to Std. Out"}
    assert all(each == wanted for each in found.values())


def test_a_group_that_the_environment_knows_is_joined_by_its_name() -> None:
    env = make_env().register_slot_sharing_group(group()).register_slot_sharing_group(group("unused"))
    mapped(env).slot_sharing_group("models").print()
    found = resources_of(env)["Map -> Sink: Print to Std. Out"]
    assert found is not None
    assert (found.group, found.vertices, found.cpu_cores) == ("models", 1, 2.0)


def test_a_group_without_resources_asks_for_nothing() -> None:
    env = make_env()
    mapped(env).slot_sharing_group(SlotSharingGroup.builder("own").build()).print()
    assert set(resources_of(env).values()) == {None}


def test_two_groups_of_one_name_are_refused() -> None:
    env = make_env().register_slot_sharing_group(group(cores=1.0))
    mapped(env).slot_sharing_group(group(cores=2.0)).print()
    with pytest.raises(InvalidJob, match="slot sharing group 'models' has two definitions with different resources"):
        env.build()
