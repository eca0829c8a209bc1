"""The commands a user types, from the first to the last, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.cluster import JOBS, MARK, REPOSITORY, Cluster, marked, run_cli
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.ports import free_port
from tidegate.aio.process import read_pid_file

BAD = str(JOBS / "bad.py")
START_LIMIT_S = 180


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """A temporary directory for a command and all that it starts; it must be empty in the end."""
    with tempfile.TemporaryDirectory(prefix="tg-") as made:
        yield Path(made)
        assert sorted(str(path) for path in Path(made).rglob("*")) == []


def environment(tmp: Path) -> dict[str, str]:
    return {MARK: tmp.name, "TMPDIR": str(tmp), "PYTHONPATH": str(REPOSITORY), "TIDEGATE_IO_TMP_DIRS": str(tmp)}


def sums_are_right(output: Path) -> bool:
    """``bad.py ok``: the running sums of 1..1000 by their last digit end with these."""
    lines = [line for file in output.glob("part-*") for line in file.read_text().splitlines()]
    assert len(lines) == 1000
    last = Counter(sum(range(digit or 10, 1001, 10)) for digit in range(10))
    return not last - Counter(map(int, lines))


def test_python_job_py_alone(tmp_path: Path, short_tmp: Path) -> None:
    command = [sys.executable, BAD, "ok", str(tmp_path / "out")]

    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, **environment(short_tmp)},
        capture_output=True,
        text=True,
        timeout=START_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sums_are_right(tmp_path / "out")
    assert marked(short_tmp.name) == []


def test_an_embedded_cluster_keeps_large_state_and_leaves_nothing(tmp_path: Path, short_tmp: Path) -> None:
    home = tmp_path / "home"
    done = run_cli(
        "run", "--local", "-p", "1", str(JOBS / "large_state.py"), str(tmp_path / "out"),
        directory=tmp_path, limit_s=START_LIMIT_S, **environment(short_tmp), TIDEGATE_HOME=str(home),
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "restart" not in said
    assert sum(len(file.read_text().splitlines()) for file in (tmp_path / "out").glob("part-*")) == 2_000
    assert sorted(home.rglob("*")) == [home / "clusters", home / "security", home / "security" / "own.pem"]
    assert marked(short_tmp.name) == []


def test_run_local_and_its_exit_codes(tmp_path: Path, short_tmp: Path) -> None:
    done = run_cli(
        "run", "--local", "-p", "2", BAD, "ok", str(tmp_path / "out"),
        directory=tmp_path, limit_s=START_LIMIT_S, **environment(short_tmp),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FINISHED" in done.stdout + done.stderr
    assert sums_are_right(tmp_path / "out")
    assert marked(short_tmp.name) == []


def test_ctrl_c_ends_a_local_run_with_everything_it_started(tmp_path: Path, short_tmp: Path) -> None:

    process = subprocess.Popen(
        [sys.executable, "-m", "tidegate.cli.main", "run", "--local", "-p", "1", BAD, "long", str(tmp_path / "out")],
        cwd=tmp_path,
        env={**os.environ, **environment(short_tmp)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: list((tmp_path / "out").glob("part-*")), START_LIMIT_S, "a first checkpoint is committed")
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=HANG_LIMIT_S)
        assert process.returncode in (1, 130), said
        assert "Traceback" not in said
        wait_until(lambda: not marked(short_tmp.name), HANG_LIMIT_S, "everything is gone")
    finally:
        for member in marked(short_tmp.name):
            member.kill()
        process.wait(10)


def test_a_start_that_fails_says_which_port_is_taken_and_leaves_its_logs_alone(tmp_path: Path, short_tmp: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_cli(
            "cluster", "start", "--dir", str(tmp_path / "state"), "-D", "jobmanager.rpc.port=0", "-D", f"rest.port={port}",
            directory=tmp_path, limit_s=START_LIMIT_S, **environment(short_tmp),
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"error: cannot start the REST endpoint on localhost:{port}: Address already in use; choose another port with "
        "-D rest.port=PORT, or rest.port in config.yaml; 0 takes one that is free"
    )
    left = {str(path.relative_to(tmp_path / "state" / "clusters")) for path in tmp_path.glob("state/clusters/**/*")}
    assert left == {"default", "default/log", "default/log/jobmanager.log", "default/log/jobmanager.out"}
    assert marked(short_tmp.name) == []


def test_a_jobmanager_started_by_hand_is_in_the_status(tmp_path: Path, short_tmp: Path) -> None:
    home = ["-D", f"tidegate.home={tmp_path / 'home'}"]
    ports = ["-D", "jobmanager.rpc.port=0", "-D", "rest.port=0", "-D", f"io.tmp.dirs={short_tmp}"]
    command = [sys.executable, "-m", "tidegate.cli.main", "jobmanager", *home, *ports]
    own = environment(short_tmp)

    def cluster(*words: str) -> subprocess.CompletedProcess[str]:
        return run_cli("cluster", *words, *home, directory=tmp_path, limit_s=START_LIMIT_S, **own)

    with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, **own}, stderr=subprocess.DEVNULL) as by_hand:
        try:
            wait_until(
                lambda: cluster("status").returncode == 0,
                HANG_LIMIT_S,
                "the JobManager is seen",
            )
            said = cluster("status").stdout
            assert re.search(rf"^jobmanager, started by hand +{by_hand.pid} +alive *$", said, re.MULTILINE), said
            assert re.search(
                r"^JobManager at localhost:\d+ \(REST port \d+\): 0 TaskManagers, 0 of 0 slots free", said, re.MULTILINE
            )
            (other,) = json.loads(cluster("status", "--json").stdout)["by-hand"]
            assert (other["pid"], other["jobmanager"]["taskmanagers"]) == (by_hand.pid, 0)
            said = cluster("stop").stdout
            assert f"The JobManager of pid {by_hand.pid} was started by hand and goes on" in said
            assert by_hand.poll() is None
        finally:
            by_hand.terminate()
    assert by_hand.returncode == 0
    assert "No cluster" in cluster("status").stdout


def test_a_cluster_from_start_to_stop(tmp_path: Path, short_tmp: Path) -> None:
    ports = ["-D", f"jobmanager.rpc.port={free_port()}", "-D", "rest.port=0", "-D", f"io.tmp.dirs={short_tmp}"]
    there = ["--dir", str(tmp_path / "state")]

    def tidegate(*arguments: str, code: int = 0) -> str:
        done = run_cli(*arguments, directory=tmp_path, limit_s=START_LIMIT_S, **environment(short_tmp))
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    assert "No cluster" in tidegate("cluster", "status", *there, code=1)
    try:
        started = tidegate("cluster", "start", "--taskmanagers", "2", "--slots", "2", *there, *ports)
        assert "2 TaskManagers, 4 slots" in started
        assert "2 TaskManagers, 4 of 4 slots free" in tidegate("cluster", "status", *there, *ports)
        assert "running already" in tidegate("cluster", "start", *there, *ports, code=2)
        pid_files = sorted(path.name for path in (tmp_path / "state" / "clusters" / "default" / "pid").iterdir())
        assert pid_files == ["jobmanager.pid", "taskmanager-1.pid", "taskmanager-2.pid"]
        second = read_pid_file(tmp_path / "state" / "clusters" / "default" / "pid" / "taskmanager-2.pid")
        assert second is not None
        psutil.Process(second).kill()
        wait_until(
            lambda: not psutil.pid_exists(second) or psutil.Process(second).status() == psutil.STATUS_ZOMBIE,
            HANG_LIMIT_S,
            "a TaskManager is dead",
        )
        said = tidegate("cluster", "start", "--slots", "2", *there, *ports)
        assert "The JobManager was running; started taskmanager-2." in said
        assert "2 TaskManagers, 4 slots" in said
        assert "running already" in tidegate("cluster", "start", "--taskmanagers", "2", *there, *ports, code=2)
        said = tidegate("run", "-p", "2", ports[0], ports[1], BAD, "ok", str(tmp_path / "out"))
        assert "FINISHED" in said
        assert sums_are_right(tmp_path / "out")
        assert str(tmp_path / "state/clusters/default/checkpoints") in started
        said = tidegate("run", "-p", "1", *ports[:2], str(JOBS / "large_state.py"), str(tmp_path / "large"))
        assert "FINISHED" in said
        assert "restart" not in said
        said = tidegate("run", "-d", "-p", "1", ports[0], ports[1], BAD, "long", str(tmp_path / "long"))
        (job,) = re.findall(r"\b[0-9a-f]{32}\b", said)
        wait_until(
            lambda: list((tmp_path / "long").glob("part-*")), HANG_LIMIT_S, "a checkpoint of the long job is committed"
        )
        assert job in tidegate("list", ports[0], ports[1])
        assert "RUNNING" in tidegate("list", ports[0], ports[1])
        assert "COMPLETED" in tidegate("checkpoints", job, ports[0], ports[1])
        tidegate("cancel", job, ports[0], ports[1])
        assert job not in tidegate("list", ports[0], ports[1])
        everything = tidegate("list", "-a", ports[0], ports[1])
        assert "CANCELED" in everything
        assert "FINISHED" in everything
        said = tidegate("cluster", "stop", *there, *ports)
        assert said.count("Stopped") == 3, said
        wait_until(lambda: not marked(short_tmp.name), HANG_LIMIT_S, "every process is gone")
        assert "No cluster" in tidegate("cluster", "status", *there, *ports, code=1)
    finally:
        for member in marked(short_tmp.name):
            member.kill()
            psutil.wait_procs([member], timeout=5)


def test_the_plan_is_shown_without_running(tmp_path: Path) -> None:
    done = run_cli("info", "-p", "3", BAD, "ok", str(tmp_path / "out"), directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Source: numbers" in done.stdout
    assert "HASH" in done.stdout
    assert "3 slots" in done.stdout
    assert not (tmp_path / "out").exists()
    assert "JVM" not in done.stderr


def test_the_plan_of_a_query_of_spark_says_that_a_jvm_is_started(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(
        "from tidegate.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_spark(lambda spark: spark.range(9)).print()\n"
        "env.execute('spark')\n"
    )
    done = run_cli("info", str(job), directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "A JVM is started to analyse the query of from_spark; no row is read." in done.stderr
    assert "Source: Spark" in done.stdout


@pytest.mark.parametrize(("option", "goes_on"), [([], True), (["-sae"], False)])
def test_ctrl_c_at_a_run_on_a_cluster(cluster: Cluster, tmp_path: Path, option: list[str], goes_on: bool) -> None:
    command = ["run", *option, "-p", "1", "-m", cluster.address, BAD, "long", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-m", "tidegate.cli.main", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_until(lambda: list((tmp_path / "out").glob("part-*")), START_LIMIT_S, "a checkpoint is committed")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=HANG_LIMIT_S)
    finally:
        process.kill()
        process.wait(10)
    assert "Traceback" not in said
    (job,) = set(re.findall(r"\b[0-9a-f]{32}\b", said))
    watch = cluster.watch(job)
    if goes_on:
        assert process.returncode == 130, said
        assert f"Job {job} goes on at {cluster.address}" in said
        watch.wait_for(lambda m: m.status.state == "RUNNING", HANG_LIMIT_S, "the job runs on")
        cluster.cancel(watch)
    else:
        assert process.returncode == 1, said
        watch.wait_for(lambda m: m.status.state == "CANCELED", HANG_LIMIT_S, "the job is CANCELED")
