"""A cluster of plain connections whose programs are signed by a key from a file: who reaches its ports runs nothing."""

from __future__ import annotations

import json
import secrets
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cloudpickle
import grpc
import pytest

from tests.aio.jobmanager.cluster import make_graph
from tests.e2e.cluster import JOBS, REPOSITORY, Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.pool import SLOTS, SURVIVING, made_ready, pooled
from tests.e2e.test_rescaling import end_exactly, held_run, rescaled
from tests.e2e.test_task_manager_process import Touches
from tests.e2e.waiting import HANG_LIMIT_S
from tidegate.model.ids import BlobKey
from tidegate.pb import common_pb2, taskmanager_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb.taskmanager_pb2_grpc import TaskManagerStub
from tidegate.security.signing import Signing, key_of_text
from tidegate.wire.convert import graph_to_pb
from tidegate.wire.versions import JOB_FORMAT, VERSION

LIMIT_S = 30
JOB_LIMIT_S = 180


@dataclass(frozen=True)
class Keys:
    file: Path
    other_file: Path

    @property
    def signing(self) -> Signing:
        return Signing((key_of_text(self.file.read_text(encoding="utf-8").strip()),))


def key_in(path: Path) -> Path:
    path.write_text(f"{secrets.token_hex(32)}\n", encoding="utf-8")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    directory = tmp_path_factory.mktemp("keys")
    return Keys(key_in(directory / "of-the-cluster"), key_in(directory / "another"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, keys: Keys) -> Iterator[Cluster]:
    settings = {
        **SURVIVING,
        "tidegate.security.insecure": "true",
        "tidegate.security.signing.key-file": str(keys.file),
    }
    with pooled(tmp_path_factory.mktemp("signed"), settings) as found:
        made_ready(found, 2)
        yield found


def upload(cluster: Cluster, content: bytes) -> BlobKey:
    return BlobKey(cluster.stub.PutBlob(iter([common_pb2.BlobChunk(data=content)]), timeout=LIMIT_S).key)


def test_neither_jobmanager_nor_taskmanager_opens_what_is_not_signed(
    cluster: Cluster, keys: Keys, tmp_path: Path
) -> None:
    opened = tmp_path / "opened"
    forged = upload(cluster, bytes(cloudpickle.dumps(Touches(opened))))
    signed = keys.signing.signed(make_graph())
    first = replace(signed.vertices[0], program=forged)
    graph = replace(signed, vertices=(first, *signed.vertices[1:]))
    request = pb.SubmitJobRequest(graph=graph_to_pb(graph), client_version=VERSION, job_format=JOB_FORMAT)
    answer = cluster.stub.SubmitJob(request, timeout=LIMIT_S)
    assert answer.error.code == "not-signed"
    assert f"job {graph.job_id}, vertex 'numbers'" in answer.error.message
    assert "it was signed with another program" in answer.error.message

    status = cluster.cluster_status()
    deployment = common_pb2.TaskDeployment(
        attempt=f"{graph.job_id}_{first.vertex_id}_0_0",
        generation=status.generation,
        allocation_id="1" * 32,
        task_name=first.name,
        parallelism=2,
        max_parallelism=128,
        program=forged,
        signature=first.signature,
    )
    with grpc.insecure_channel(status.task_managers[0].address) as channel:
        stub = TaskManagerStub(channel)

        def submitted() -> common_pb2.Error:
            content = deployment.SerializeToString(deterministic=True)
            asked = taskmanager_pb2.SubmitTaskRequest(generation=status.generation, deployment=content)
            error: common_pb2.Error = stub.SubmitTask(asked, timeout=LIMIT_S).error
            return error

        assert submitted().code == "not-signed"
        deployment.program = signed.vertices[0].program
        assert "no slot here is allocated" in submitted().message, "the next check: the signature is believed"
    assert not opened.exists()


def test_a_command_with_another_key_is_refused_and_says_so(cluster: Cluster, keys: Keys, tmp_path: Path) -> None:
    run = CountsRun(tmp_path, seconds=2, rows=8_000, splits=2)
    command = ["run", "--detached", "--jobmanager", cluster.address, str(JOBS / "counts.py"), *run.arguments]
    done = cluster.cli(*command, TIDEGATE_SECURITY_SIGNING_KEY_FILE=str(keys.other_file))
    assert done.returncode != 0
    assert "its signature is not by a key of this cluster" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_job_is_exact_although_a_taskmanager_and_the_jobmanager_are_killed(cluster: Cluster, tmp_path: Path) -> None:
    """The next JobManager checks it again, and so do TaskManagers that have had no subtask of it, also when it has another parallelism."""
    made_ready(cluster, 3)
    run = held_run(tmp_path)
    watch = run.submit(cluster)
    watch.wait_running()
    watch.wait_checkpoints(2)
    cluster.kill9(cluster.task_managers[-1])
    assert cluster.job_manager is not None
    cluster.kill9(cluster.job_manager)
    cluster.start_job_manager()
    watch = cluster.watch(watch.job_id)
    watch.wait_running(JOB_LIMIT_S)
    watch.wait_checkpoints(1)
    cluster.wait_slots(2 * SLOTS)
    rescaled(cluster, watch, 3)
    end_exactly(run, watch)


def test_a_program_that_rest_runs_is_signed_by_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    made_ready(cluster, 2)
    url = f"http://127.0.0.1:{cluster.rest_port}"
    program = (REPOSITORY / "examples" / "word_count.py").read_bytes()
    arguments = {"programArgsList": ["--output", str(tmp_path / "counts"), str(REPOSITORY / "README.md")]}
    bound = "bound-of-a-part"
    body = (
        f'--{bound}\r\nContent-Disposition: form-data; name="jarfile"; filename="job.py"\r\n\r\n'.encode()
        + program
        + f"\r\n--{bound}--\r\n".encode()
    )
    kind = {"Content-Type": f"multipart/form-data; boundary={bound}"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/jars/upload", body, kind), timeout=LIMIT_S) as answer:
        name = json.load(answer)["filename"].rpartition("/")[2]
    with urllib.request.urlopen(
        urllib.request.Request(
            f"{url}/jars/{name}/run", json.dumps(arguments).encode(), {"Content-Type": "application/json"}
        ),
        timeout=120,
    ) as answer:
        watch = cluster.watch(json.load(answer)["jobid"])
    watch.wait_for(lambda moment: moment.status.state == "FINISHED", HANG_LIMIT_S, "the job is FINISHED")
