"""Whatever is wrong, the user reads one clear line that names it, and the exit code is not 0."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cluster import CLI_LIMIT_S, JOBS, Cluster, run_cli
from tests.ports import free_port

BAD = str(JOBS / "bad.py")
NO_RESTART = ("-D", "restart-strategy.type=none")


def assert_one_line(done: subprocess.CompletedProcess[str], *parts: str, code: int = 1) -> None:
    """One line ``error: ...`` that holds all parts (regular expressions), at the end of what was said."""
    said = [line for line in done.stderr.splitlines() if line.strip()]
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    errors = [line for line in said if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    for part in parts:
        assert re.search(part, errors[0]), f"{part!r} is not in {errors[0]!r}"


@pytest.mark.parametrize(
    ("arguments", "parts", "code"),
    [
        (["no_such_job.py"], ["no_such_job.py", "No such file"], 2),
        (["."], ["directory"], 2),
        ([BAD, "raises"], ["bad.py raised KeyError", "a mistake in the program itself", r"bad.py, line \d+"], 1),
        (
            ["-D", "execution.checkpointing.intervall=1s", BAD, "ok"],
            ["intervall", "execution.checkpointing.interval"],
            2,
        ),
        (["-D", "execution.checkpointing.interval=soon", BAD, "ok"], ["execution.checkpointing.interval", "soon"], 2),
        (
            ["-D", "execution.checkpointing.timeout=3 parsecs", BAD, "ok"],
            ["execution.checkpointing.timeout", "parsecs"],
            2,
        ),
        (["-p", "0", BAD, "ok"], [], 2),
        ([BAD, "unpicklable"], ["locks", "LOCK", "lock"], 1),
        ([BAD, "schema"], ["valeu", "value"], 1),
        ([BAD, "missing-input"], ["/no/such/file.txt"], 1),
    ],
)
def test_before_anything_is_submitted(cluster: Cluster, arguments: list[str], parts: list[str], code: int) -> None:
    done = cluster.cli("run", "--jobmanager", cluster.address, *arguments)
    if arguments[0] == "-p":  # click's own words
        assert done.returncode == code
        assert "-p" in done.stderr
        return
    assert_one_line(done, *parts, code=code)


def test_no_jobmanager_at_the_address(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    for command in (["run", "--jobmanager", address, BAD, "ok"], ["list", "--jobmanager", address]):
        assert_one_line(run_cli(*command, directory=tmp_path), address, "JobManager")


def test_not_enough_slots(cluster: Cluster) -> None:
    slots = sum(len(known.slots) for known in cluster.cluster_status().task_managers)
    few = ["-D", "slot.request.timeout=1 s", *NO_RESTART, "-p", str(slots + 3)]
    done = cluster.cli("run", "--jobmanager", cluster.address, *few, BAD, "long")
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "Traceback" not in said
    assert f"3 of {slots + 3} slots" in said, said


def test_a_user_function_that_raises_is_told_with_its_own_traceback(cluster: Cluster) -> None:
    done = cluster.cli("run", "--jobmanager", cluster.address, *NO_RESTART, "-p", "1", BAD, "function-raises")
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "42 is not a number that I like" in said
    assert "picky" in said
    assert "raises_at_42" in said
    assert "py4j" not in said


def test_a_value_of_the_wrong_type_names_its_column(cluster: Cluster) -> None:
    done = cluster.cli("run", "--jobmanager", cluster.address, *NO_RESTART, "-p", "1", BAD, "wrong-type")
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "formats" in said
    assert "number" in said


def test_unwritable_checkpoint_directory_is_refused_at_submission(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file, no directory")
    bad = tmp_path / "file" / "checkpoints"
    done = cluster.cli("run", "--jobmanager", cluster.address, "-D", f"execution.checkpointing.dir={bad}", BAD, "ok")
    assert_one_line(done, str(bad), "not writable")


def test_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run_cli("jobmanager", "--host", "127.0.0.1", "--rpc-port", port, "--rest-port", "0", directory=tmp_path)
        assert_one_line(done, f"127.0.0.1:{port}", "in use")
        done = run_cli("jobmanager", "--host", "127.0.0.1", "--rpc-port", "0", "--rest-port", port, directory=tmp_path)
        assert_one_line(done, port, "in use")


def test_java_missing_or_too_old(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    done = run_cli("taskmanager", "--jobmanager", address, directory=tmp_path, JAVA_HOME=str(tmp_path / "nowhere"))
    assert_one_line(done, "[Jj]ava", "nowhere")
    java = tmp_path / "old" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    done = run_cli("taskmanager", "--jobmanager", address, directory=tmp_path, JAVA_HOME=str(tmp_path / "old"))
    assert_one_line(done, "[Jj]ava", "11", "17")


def test_corrupt_checkpoints_are_named(cluster: Cluster, tmp_path: Path) -> None:
    """A flipped byte in ``_metadata`` is seen at submission; one in a state file at the latest when it is read."""
    kept = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
    files = {"execution.checkpointing.data-inline-threshold": "0 b", "execution.checkpointing.dir": str(tmp_path)}
    watch = cluster.submit(BAD, "long", str(tmp_path / "out"), parallelism=1, settings={**kept, **files})
    watch.wait_checkpoints(2)
    cluster.cancel(watch)
    (metadata,) = (tmp_path / watch.job_id).glob("chk-*/_metadata")
    checkpoint = metadata.parent
    good = metadata.read_bytes()
    again = ["run", "--jobmanager", cluster.address, *NO_RESTART, "-p", "1", "-s", str(checkpoint)]
    _flip(metadata)
    assert_one_line(cluster.cli(*again, BAD, "long", str(tmp_path / "out")), str(metadata))
    metadata.write_bytes(good)
    state = max((path for path in checkpoint.iterdir() if path != metadata), key=lambda path: path.stat().st_size)
    _flip(state)
    done = cluster.cli(*again, BAD, "long", str(tmp_path / "out"))
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert state.name in said, said
    assert "Traceback" not in said
    state.unlink()
    assert_one_line(cluster.cli(*again, BAD, "long", str(tmp_path / "out")), state.name)


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x40
    file.write_bytes(content)


def test_a_checkpoint_that_is_not_there(cluster: Cluster, tmp_path: Path) -> None:
    missing = str(tmp_path / "chk-7")
    done = cluster.cli("run", "--jobmanager", cluster.address, "-s", missing, BAD, "ok")
    assert_one_line(done, missing)


def test_another_version_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """A TaskManager and a client of another tidegate, and a client of another Python."""
    done = _patched(tmp_path, "VERSION", "9.9.9", "taskmanager", "--jobmanager", cluster.address)
    fatal = [line for line in done.stderr.splitlines() if " ERROR " in line]
    assert done.returncode == 1, done.stderr
    assert len(fatal) == 1, done.stderr
    assert "9.9.9" in fatal[0]
    assert "Traceback" not in done.stderr
    done = _patched(tmp_path, "VERSION", "9.9.9", "run", "--jobmanager", cluster.address, BAD, "ok")
    assert_one_line(done, "9.9.9")
    program = (
        "import sys, tidegate.cli.main, tidegate.datastream._graph.job_graph_builder as built; from types import SimpleNamespace as N;"
        "built.sys = N(version_info=N(major=3, minor=99)); tidegate.cli.main.main(sys.argv[1:], prog_name='tidegate')"
    )
    command = [sys.executable, "-c", program, "run", "--jobmanager", cluster.address, BAD, "ok"]
    assert_one_line(_finished(command, tmp_path), "3.99", "Python")


def _patched(directory: Path, name: str, value: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = (
        f"import sys, tidegate.wire.versions as versions; versions.{name} = {value!r};"
        "import tidegate.cli.main; tidegate.cli.main.main(sys.argv[1:], prog_name='tidegate')"
    )
    return _finished([sys.executable, "-c", program, *arguments], directory)


def _finished(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, env=dict(os.environ), capture_output=True, text=True, timeout=CLI_LIMIT_S, check=False
    )


def test_misuse(cluster: Cluster) -> None:
    assert cluster.cli("run").returncode == 2
    assert cluster.cli("runn").returncode == 2
    done = cluster.cli("cancel", "--jobmanager", cluster.address, "0" * 32)
    assert_one_line(done, "0" * 32)
