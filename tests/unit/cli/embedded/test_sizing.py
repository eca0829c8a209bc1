from __future__ import annotations

import pytest

from tidegate.cli.embedded.sizing import decide_added_slots, settings_of_processes
from tidegate.model.options import GROUPS, CheckpointingOptions, TaskManagerOptions, is_of_a_job, options_of


@pytest.mark.parametrize(
    ("offered", "used", "wanted", "added"),
    [
        (2, [], 2, 0),
        (2, [], 1, 0),
        (2, [1], 1, 0),
        (2, [1], 2, 2),
        (2, [2, 0], 5, 5),
        (4, [4], 1, 4),
        (0, [], 3, 3),
    ],
)
def test_a_job_gets_what_is_missing_and_at_least_as_much_as_there_is(
    offered: int, used: list[int], wanted: int, added: int
) -> None:
    assert decide_added_slots(offered, used, wanted) == added


def test_many_growing_jobs_need_few_taskmanagers() -> None:
    task_managers, offered = 0, 0
    for wanted in range(1, 129):
        added = decide_added_slots(offered, [], wanted)
        task_managers, offered = task_managers + (added > 0), offered + added
    assert task_managers == 8


def test_processes_start_with_what_is_theirs_and_jobs_keep_what_is_their_own() -> None:
    texts = {
        "taskmanager.memory.process.size": "2 gb",
        "taskmanager.state.local.root-dirs": "/somewhere",
        "spark.driver.memory": "1g",
        "io.tmp.dirs": "/elsewhere",
        "rest.port": "0",
        "tidegate.testing.faults": "kill@3",
        "execution.checkpointing.interval": "1 s",
        "state.backend": "rocksdb",
        "restart-strategy.type": "none",
        "pipeline.name": "job",
        "python.files": "a.py",
        "pipeline.object-reuse": "true",
    }
    assert settings_of_processes(texts) == {
        "taskmanager.memory.process.size": "2 gb",
        CheckpointingOptions.LOCAL_BACKUP_DIRS.key: "/somewhere",
        "spark.driver.memory": "1g",
        "io.tmp.dirs": "/elsewhere",
        "rest.port": "0",
        "tidegate.testing.faults": "kill@3",
    }


def test_jobs_that_want_checkpoints_in_memory_get_a_cluster_without_a_directory_for_them() -> None:
    storage = CheckpointingOptions.STORAGE.key
    assert settings_of_processes({storage: "jobmanager"}) == {storage: "jobmanager"}
    assert settings_of_processes({storage: "filesystem", CheckpointingOptions.DIRECTORY.key: "/here"}) == {}


def test_every_option_is_of_a_job_or_of_processes() -> None:
    of_a_job = {group.__name__ for group in GROUPS for option in options_of(group) if is_of_a_job(option.key)}
    assert of_a_job == {
        "CheckpointingOptions",
        "StateOptions",
        "RocksDBOptions",
        "StateRecoveryOptions",
        "RestartStrategyOptions",
        "PipelineOptions",
        "ExecutionOptions",
        "PythonOptions",
        "TableOptions",
    }
    assert not any(is_of_a_job(option.key) for option in options_of(TaskManagerOptions))
