"""Who executes a program, what lies under its settings, and which files travel with it."""

from __future__ import annotations

import io
import runpy
import socket
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from tests.unit.tidegate.datastream.options_kit import given
from tidegate.common import Configuration, JobExecutionResult, JobStatus, RestartStrategies, Types
from tidegate.common.time import Duration
from tidegate.datastream import CheckpointingMode, ExternalizedCheckpointRetention, StreamExecutionEnvironment
from tidegate.datastream._graph.executor import PlanRecorded, PlanRecorder, installed
from tidegate.datastream._graph.local_modules import JOB_MODULES
from tidegate.model.accumulators import Accumulator, IntCounter
from tidegate.model.errors import InvalidJob, TidegateError
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey, JobId, VertexId
from tidegate.model.options import ExecutionOptions
from tidegate.model.states import JobState


class Recording:
    """An executor that runs nothing."""

    def __init__(self, outcome: TidegateError | None = None) -> None:
        self.graphs: list[JobGraph] = []
        self.cancelled = False
        self._outcome = outcome

    def execute(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobExecutionResult:
        self.graphs.append(graph)
        assert {vertex.program for vertex in graph.vertices} <= set(blobs)
        if self._outcome is not None:
            raise self._outcome
        return JobExecutionResult(graph.job_id, 12)

    def execute_async(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> Recording:
        self.execute(graph, blobs)
        return self

    @property
    def job_id(self) -> JobId:
        return self.graphs[-1].job_id

    def state(self) -> JobState:
        return JobState.RUNNING

    def cancel(self) -> None:
        self.cancelled = True

    def secure(self, connection: socket.socket) -> socket.socket:
        return connection

    def result_address(self, vertex_id: VertexId) -> str | None:
        return None

    def savepoint(self, directory: str) -> str:
        return f"{directory}/savepoint-1"

    def stop_with_savepoint(self, directory: str, drain: bool) -> str:
        return f"{directory}/savepoint-{'drained' if drain else 'suspended'}"

    def accumulators(self) -> dict[str, Accumulator[Any, Any]]:
        seen = IntCounter()
        seen.add(3)
        return {"seen": seen}

    def wait(self) -> JobExecutionResult:
        return JobExecutionResult(self.job_id, 34)

    def show_live(self) -> None:
        raise AssertionError("this is no notebook")


def add_program(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1, 2], Types.LONG()).print()


def test_execute_hands_the_graph_to_the_installed_executor() -> None:
    executor = Recording()
    with installed(executor, {"parallelism.default": "3"}):
        env = StreamExecutionEnvironment.get_execution_environment()
        add_program(env)
        result = env.execute("my job")
    assert executor.graphs[0].name == "my job"
    assert (env.get_parallelism(), executor.graphs[0].configuration["parallelism.default"]) == (3, "3")
    assert str(result.get_job_id()) == executor.graphs[0].job_id
    assert executor.graphs[0].python_version == f"{sys.version_info.major}.{sys.version_info.minor}"


def test_a_failed_job_raises_and_a_second_execution_is_another_job() -> None:
    with installed(Recording(InvalidJob("no slots"))):
        env = StreamExecutionEnvironment.get_execution_environment()
        add_program(env)
        with pytest.raises(InvalidJob, match="no slots"):
            env.execute()
        with pytest.raises(InvalidJob, match="nothing to execute"):
            env.execute()


def test_execute_async_gives_a_client() -> None:
    executor = Recording()
    with installed(executor):
        env = StreamExecutionEnvironment.get_execution_environment()
        add_program(env)
        client = env.execute_async()
    assert str(client.get_job_id()) == executor.job_id
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert client.cancel().result() is None
    assert executor.cancelled
    assert client.get_job_execution_result().result().get_net_runtime() == 34
    assert client.get_accumulators().result() == {"seen": 3}


def test_code_wins_over_configuration_wins_over_the_command_line() -> None:
    with installed(Recording(), {"parallelism.default": "3", "pipeline.max-parallelism": "64"}):
        configured = Configuration().set_integer("parallelism.default", 5)
        env = StreamExecutionEnvironment.get_execution_environment(configured)
        assert (env.get_parallelism(), env.get_max_parallelism()) == (5, 64)
        assert env.set_parallelism(7).get_parallelism() == 7


def test_unaligned_checkpoints_are_switched_as_in_pyflink() -> None:
    config = StreamExecutionEnvironment.get_execution_environment().get_checkpoint_config()
    assert not config.is_unaligned_checkpoints_enabled()
    config.enable_unaligned_checkpoints().set_alignment_timeout(Duration.of_millis(40))
    assert config.is_unaligned_checkpoints_enabled()
    assert config.get_alignment_timeout() == Duration.of_millis(40)
    assert not config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()


def test_settings_are_flinks_option_texts() -> None:
    executor = Recording()
    with installed(executor):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.enable_checkpointing(500, CheckpointingMode.AT_LEAST_ONCE).set_buffer_timeout(20)
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 1000))
        config = env.get_checkpoint_config().set_min_pause_between_checkpoints(100).set_max_concurrent_checkpoints(1)
        config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
        config.set_tolerable_checkpoint_failure_number(2).set_checkpoint_storage_dir("/checkpoints")
        env.get_config().set_global_job_parameters({"path": "a,b", "quote": "it's", "n": 5})
        add_program(env)
        env.execute()
    texts = dict(executor.graphs[0].configuration)
    del texts["pipeline.global-job-parameters"]
    assert texts == {
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.mode": "AT_LEAST_ONCE",
        "execution.checkpointing.min-pause": "100 ms",
        "execution.checkpointing.max-concurrent-checkpoints": "1",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.tolerable-failed-checkpoints": "2",
        "execution.checkpointing.dir": "/checkpoints",
        "execution.buffer-timeout.enabled": "true",
        "execution.buffer-timeout.interval": "20 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "1000 ms",
    }
    assert env.get_config().get_global_job_parameters() == {"path": "a,b", "quote": "it's", "n": "5"}
    assert (env.get_checkpoint_interval(), env.get_buffer_timeout()) == (500, 20)


def test_the_buffer_timeout_told_is_the_one_that_works() -> None:
    default_ms = ExecutionOptions.BUFFER_TIMEOUT.default
    assert StreamExecutionEnvironment().get_buffer_timeout() == default_ms == 5


def test_plan_recorder_ends_the_program_where_it_would_run() -> None:
    recorder = PlanRecorder()
    with installed(recorder):
        env = StreamExecutionEnvironment.get_execution_environment()
        add_program(env)
        with pytest.raises(PlanRecorded):
            env.execute("planned")
    assert recorder.graph is not None
    assert recorder.graph.name == "planned"


@pytest.fixture
def job_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "beside_rules.py").write_text("def double(x):\n    return x * 2\n")
    (tmp_path / "beside_package").mkdir()
    (tmp_path / "beside_package" / "__init__.py").write_text("")
    (tmp_path / "beside_package" / "deep.py").write_text("def half(x):\n    return x / 2\n")
    (tmp_path / "not_imported.py").write_text("")
    (tmp_path / "job.py").write_text(
        "import beside_rules\n"
        "from beside_package.deep import half\n"
        "from tidegate.datastream import StreamExecutionEnvironment\n"
        "from tidegate.common import Types\n"
        "def own(x):\n    return half(beside_rules.double(x))\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1], Types.LONG()).map(own).print()\n"
        "env.execute('shipped')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [n for n in sys.modules if n.startswith("beside_")]:
        del sys.modules[name]


def test_modules_beside_the_script_are_shipped_and_the_script_itself_is_pickled_by_value(job_folder: Path) -> None:
    recorder = PlanRecorder()
    with installed(recorder), pytest.raises(PlanRecorded):
        runpy.run_path(str(job_folder / "job.py"), run_name="__main__")
    assert recorder.graph is not None
    content = recorder.blobs[recorder.graph.blobs[JOB_MODULES]]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert sorted(archive.namelist()) == [
            "beside_package/__init__.py",
            "beside_package/deep.py",
            "beside_rules.py",
        ]
    program = cloudpickle.loads(recorder.blobs[recorder.graph.vertices[0].program])
    assert given(program.operators[1])["func"](3) == 3.0


def test_python_files_are_added_by_name(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("x = 1\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.add_python_file(str(tmp_path / "rules.py")).add_python_file(str(tmp_path / "package"))
    add_program(env)
    job = env.build()
    assert set(job.graph.blobs) == {"rules.py", "package.zip"}
    assert job.blobs[job.graph.blobs["rules.py"]] == b"x = 1\n"
    with pytest.raises(InvalidJob, match="does not exist"):
        env.add_python_file(str(tmp_path / "missing.py"))
    with pytest.raises(InvalidJob, match="neither a module"):
        env.add_python_file(str(tmp_path / "notes.txt"))
