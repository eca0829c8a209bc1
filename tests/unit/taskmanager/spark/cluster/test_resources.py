"""What a slot sharing group asks for: whether it is there, and what each of its subtasks is given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.model.errors import ConfigurationError
from tidegate.model.graph import SlotResources
from tidegate.taskmanager.spark.cluster.resources import Available, check_resources

MIB = 1 << 20
ASKED = SlotResources("models", 2, 4.0, 512 * MIB, managed_bytes=512 * MIB, external={"gpu": 1.0})
MACHINE = Available("this machine", 4, {"gpu": 1.0}, 1024 * MIB, is_cluster=False)
EXECUTOR = Available("an executor", 2, {"gpu": 0.5}, 0, is_cluster=True)


def test_what_is_there_is_enough() -> None:
    check_resources(ASKED, MACHINE)
    check_resources(ASKED, EXECUTOR)


def test_each_subtask_of_a_slot_has_an_equal_share_of_whole_cores() -> None:
    shares = {cores: replace(ASKED, cpu_cores=cores).cpus_of_subtask for cores in (0.5, 2.0, 3.0, 4.0)}
    assert shares == {0.5: 1, 2.0: 1, 3.0: 2, 4.0: 2}
    assert ASKED.external_of_subtask == {"gpu": 0.5}


@pytest.mark.parametrize(
    ("asked", "there", "lacks"),
    [
        (replace(ASKED, cpu_cores=5.0), MACHINE, "for 5 CPU cores, and this machine has 4"),
        (
            replace(ASKED, cpu_cores=5.0),
            EXECUTOR,
            "for 3 CPU cores for each of 2 subtasks in a slot, and an executor has 2",
        ),
        (
            replace(ASKED, external={"gpu": 2.0}),
            MACHINE,
            "2 gpu, and this machine has 1; declare it in external-resources",
        ),
        (
            replace(ASKED, external={"fpga": 2.0}),
            EXECUTOR,
            "1 fpga for each of 2 subtasks in a slot, and an executor has 0; set spark.executor.resource.fpga.amount",
        ),
        (replace(ASKED, external={"gpu": 3.0}), replace(EXECUTOR, external={"gpu": 4.0}), "1.5 gpu for each subtask"),
        (
            replace(ASKED, managed_bytes=600 * MIB),
            MACHINE,
            "1112 MiB of memory, and a slot of this TaskManager has 1024",
        ),
    ],
)
def test_what_is_not_there_is_said_at_once(asked: SlotResources, there: Available, lacks: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_resources(asked, there)
    assert "slot sharing group 'models' asks for" in str(refused.value)
    assert lacks in str(refused.value)
    assert not refused.value.retriable


def test_all_that_is_lacking_is_said_together() -> None:
    with pytest.raises(ConfigurationError, match=r"CPU cores.*; for 1 gpu"):
        check_resources(ASKED, replace(MACHINE, cores=1, external={}))
