"""Where a cluster's files are, and where its checkpoints go when nobody says."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidegate.aio.homes import home_of
from tidegate.aio.working_directories import if_dead
from tidegate.cli.cluster_files import ByHand, ClusterFiles, clusters_of
from tidegate.cli.commands.cluster import NOT_SEEN
from tidegate.cli.embedded.own_files import EmbeddedFiles, sweep_embedded
from tidegate.cli.main import main
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError
from tidegate.model.options import CheckpointingOptions


def configured(**texts: str) -> Configuration:
    return Configuration.from_strings({key.replace("__", "-").replace("_", "."): text for key, text in texts.items()})


def test_everything_of_the_background_cluster_is_in_one_directory(tmp_path: Path) -> None:
    files = ClusterFiles.of(tmp_path, configured())
    assert files.directory == tmp_path / "clusters" / "default"
    assert (files.logs, files.pids) == (files.directory / "log", files.directory / "pid")
    elsewhere = ClusterFiles.of(tmp_path, configured(env_log_dir="/l", env_pid_dir="/p"))
    assert (elsewhere.logs, elsewhere.pids, elsewhere.directory) == (Path("/l"), Path("/p"), files.directory)


@pytest.mark.parametrize(
    ("settings", "is_default"),
    [
        ({}, True),
        ({"jobmanager_bind__host": "127.0.0.2"}, True),
        ({"execution_checkpointing_dir": "/somewhere"}, False),
        ({"state_checkpoints_dir": "/somewhere"}, False),
        ({"execution_checkpointing_storage": "jobmanager"}, False),
        ({"jobmanager_bind__host": "0.0.0.0"}, False),
        ({"jobmanager_bind__host": "db-7"}, False),
    ],
)
def test_checkpoints_have_a_directory_unless_something_else_is_said(
    tmp_path: Path, settings: dict[str, str], is_default: bool
) -> None:
    files = ClusterFiles.of(tmp_path, configured())
    expected = [f"execution.checkpointing.dir={files.checkpoints}"] if is_default else []
    assert files.checkpoint_definitions(configured(**settings)) == expected


def test_it_is_said_where_checkpoints_go(tmp_path: Path) -> None:
    files = ClusterFiles.of(tmp_path, configured())
    assert files.where_checkpoints_go(configured()) == str(files.checkpoints)
    assert files.where_checkpoints_go(configured(execution_checkpointing_dir="s3://b/c")) == "s3://b/c"
    assert files.where_checkpoints_go(configured(jobmanager_bind__host="0.0.0.0")) == ""
    assert files.where_checkpoints_go(configured(execution_checkpointing_storage="jobmanager")) == ""


def test_a_lost_taskmanager_is_shown_for_a_while_and_then_dropped(tmp_path: Path) -> None:
    """A lost JobManager stays: the next start puts it back in its place."""
    files = ClusterFiles.of(tmp_path, configured())
    files.make()
    gone_pid = 2**22 + 1  # above every pid of Linux
    for name in ("jobmanager", "taskmanager-1", "taskmanager-2"):
        (files.pids / f"{name}.pid").write_text(str(gone_pid))
        (files.logs / f"{name}.log").touch()
    for path in (*files.pids.glob("*-1.pid"), *files.logs.glob("*-1.log"), *tmp_path.rglob("jobmanager.*")):
        os.utime(path, (1_000, 1_000))
    lost = files.lost(forget_after_s=3_600)
    assert lost["jobmanager"] == 1_000
    assert lost["taskmanager-2"] > 1_000
    assert sorted(lost) == files.known() == ["jobmanager", "taskmanager-2"]


def test_a_user_without_a_home_has_a_place_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delenv("TIDEGATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    here = configured(io_tmp_dirs=str(tmp_path))
    found = home_of(here)
    assert found == tmp_path / f"tidegate-home-{os.geteuid()}"
    assert home_of(here) == found
    assert found.stat().st_mode & 0o077 == 0
    found.rmdir()
    (tmp_path / "theirs").mkdir()
    found.symlink_to(tmp_path / "theirs")
    with pytest.raises(ExternalError, match=r"set tidegate\.home"):
        home_of(here)
    assert home_of(configured(tidegate_home="/given")) == Path("/given")


def test_other_users_see_nothing_of_it_whatever_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    before = os.umask(0)
    try:
        own = EmbeddedFiles(Configuration.from_strings({}))
        home = home_of(Configuration.from_strings({}))
        shared = ClusterFiles.of(tmp_path / "shared", Configuration.from_strings({}))
        shared.make()
    finally:
        os.umask(before)
    own.end()
    assert stat.S_IMODE((tmp_path / ".tidegate").stat().st_mode) == 0o700
    assert clusters_of(home).parent == tmp_path / ".tidegate"
    assert stat.S_IMODE(shared.directory.stat().st_mode) == 0o700


def test_an_embedded_cluster_leaves_nothing(tmp_path: Path) -> None:
    own = EmbeddedFiles(configured(tidegate_home=str(tmp_path)))
    (own.files.logs / "jobmanager.log").write_text("x")
    (own.files.checkpoints / "job" / "chk-1").mkdir(parents=True)
    assert own.files.directory.parent == clusters_of(tmp_path)
    assert own.end() == []
    assert own.end() == []
    assert os.listdir(clusters_of(tmp_path)) == []


def test_what_a_job_retained_stays(tmp_path: Path) -> None:
    own = EmbeddedFiles(configured(tidegate_home=str(tmp_path)))
    checkpoint = completed(own.files.checkpoints / "job" / "chk-1")
    assert own.end() == [checkpoint]
    assert os.listdir(own.files.directory) == ["checkpoints"]


def test_logs_stay_when_somebody_has_to_look_at_them(tmp_path: Path) -> None:
    own = EmbeddedFiles(configured(tidegate_home=str(tmp_path)))
    assert own.end(keep_logs=True) == []
    assert os.listdir(own.files.directory) == ["log"]


def test_the_next_one_removes_what_a_killed_one_has_left_but_no_checkpoint(tmp_path: Path) -> None:
    here = configured(tidegate_home=str(tmp_path))
    living, killed, with_state = (EmbeddedFiles(here, kind) for kind in ("local", "local", "demo"))
    checkpoint = completed(with_state.files.checkpoints / "job" / "chk-7")
    for gone in (killed, with_state):
        gone.owned.release()  # as the kernel does
    found = EmbeddedFiles(here)
    assert found.left_by_others == [checkpoint]
    assert sweep_embedded(clusters_of(tmp_path)) == []
    assert sorted(os.listdir(clusters_of(tmp_path))) == sorted(
        own.files.directory.name for own in (living, with_state, found)
    )
    assert os.listdir(with_state.files.directory) == ["checkpoints"]
    assert living.files.logs.is_dir()


def test_what_a_killed_jobmanager_had_begun_goes_with_the_next_start_when_nobody_owns_the_directory(
    tmp_path: Path,
) -> None:
    files = ClusterFiles.of(tmp_path, configured())
    job, other, goes_on = (files.checkpoints / (letter * 32) for letter in "abc")
    (files.directory / "ha" / "default" / "execution-plans" / goes_on.name).mkdir(parents=True)
    checkpoint = completed(job / "chk-7")
    for begun in (job / "chk-8", other / "chk-1", goes_on / "chk-5"):
        begun.mkdir(parents=True)
        (begun / "count-x-0").write_bytes(b"x")
    for directory in (job / "shared", other / "shared", other / "taskowned", tmp_path / "clusters" / "default" / "log"):
        directory.mkdir(parents=True)
    (job / "shared" / "segment").write_bytes(b"x")
    first = files.own(configured())
    assert (job / "chk-8").exists(), "nobody can say whose it is"
    files.own(configured()).release()
    assert (job / "chk-8").exists(), "the first one lives"
    first.release()  # as the kernel does
    files.own(configured(high__availability_type="filesystem", high__availability_storageDir="/elsewhere")).release()
    assert (job / "chk-8").exists(), "whoever goes on with it is not known here"
    files.own(configured()).release()
    assert (goes_on / "chk-5").exists(), "the next JobManager goes on with this job"
    shutil.rmtree(goes_on)
    assert sorted(path.name for path in files.checkpoints.rglob("*")) == [
        "_metadata", "a" * 32, "chk-7", "segment", "shared",
    ]  # fmt: skip
    files.forget()
    assert checkpoint.exists()
    assert sorted(os.listdir(files.directory)) == ["checkpoints", "ha", "log"]


def completed(checkpoint: Path) -> Path:
    checkpoint.mkdir(parents=True)
    (checkpoint / "_metadata").write_bytes(b"x")
    return checkpoint


def test_what_the_jobmanager_starts_on_this_machine_is_found_by_the_commands_of_the_cluster(tmp_path: Path) -> None:
    files = ClusterFiles.of(tmp_path, configured())
    places = [f"env.pid.dir={files.pids}", f"env.log.dir={files.logs}"]
    assert files.worker_definitions(configured()) == ["tidegate.resourcemanager.driver=process", *places]
    assert files.worker_definitions(configured(tidegate_resourcemanager_driver="spark")) == places
    assert (
        files.worker_definitions(configured(tidegate_resourcemanager_driver="process", env_log_dir="/l")) == places[:1]
    )
    assert files.worker_definitions(configured(tidegate_resourcemanager_driver="command")) == []


def test_a_start_that_failed_leaves_its_logs_alone(tmp_path: Path) -> None:
    files = ClusterFiles.of(tmp_path, configured())
    files.make()
    files.own(configured()).release()
    files.listens("localhost", {"rpc_port": 1, "rest_port": 2})
    (files.pids / "jobmanager.pid").write_text("1 0\n")
    (files.logs / "jobmanager.log").write_text("why\n")
    for part in ("leader", "blobs/x", "store"):
        (files.directory / "ha" / "default" / part).mkdir(parents=True)
    files.withdraw()
    assert [path.relative_to(files.directory) for path in sorted(files.directory.rglob("*"))] == [
        Path("log"),
        Path("log/jobmanager.log"),
    ]


def test_a_start_that_failed_keeps_the_jobs_that_were_there(tmp_path: Path) -> None:
    files = ClusterFiles.of(tmp_path, configured())
    files.make()
    job = files.directory / "ha" / "default" / "execution-plans" / "a"
    job.mkdir(parents=True)
    files.withdraw()
    assert job.exists()


@pytest.mark.parametrize(
    ("settings", "is_default"),
    [([], True), (["execution.checkpointing.dir=/there"], False), (["jobmanager.bind-host=0.0.0.0"], False)],
)
def test_a_jobmanager_started_by_hand_has_the_directory_of_the_cluster_of_this_machine(
    tmp_path: Path, settings: list[str], is_default: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Configuration] = []
    monkeypatch.setattr(
        "tidegate.cli.commands.processes.serve_job_manager",
        lambda configuration, *_, **__: served.append(configuration),
    )
    words = [word for text in [f"tidegate.home={tmp_path}", *settings] for word in ("-D", text)]
    result = CliRunner().invoke(main, ["jobmanager", *words])
    assert result.exit_code == 0, result.output
    expected = tmp_path / "clusters" / "default" / "checkpoints"
    directory = served[0].get(CheckpointingOptions.DIRECTORY)
    if is_default:
        assert directory == str(expected)
        assert result.stderr == f"Checkpoints: {expected}\n"
        with if_dead(expected.parent) as is_dead:
            assert not is_dead, "`tidegate cluster start` would remove what it writes"
        assert stat.S_IMODE(expected.parent.stat().st_mode) == stat.S_IRWXU
    else:
        assert directory != str(expected)
        assert not (tmp_path / "clusters").exists()


def test_a_jobmanager_started_by_hand_is_known_until_it_ends(tmp_path: Path) -> None:
    files = ClusterFiles.of(tmp_path, configured())
    files.make()
    assert files.by_hand() == []
    files.note_by_hand()
    assert files.by_hand() == [ByHand(os.getpid(), None, None)]
    files.note_by_hand("localhost", {"rpc_port": 6123, "rest_port": 8081})
    assert files.by_hand() == [ByHand(os.getpid(), "localhost:6123", 8081)]
    assert files.running() == {}, "`tidegate cluster stop` would end it"
    notes = files.directory / "by-hand"
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    for note in notes.iterdir():
        note.rename(notes / f"jobmanager-{gone.stdout.strip()}{note.suffix}")
    (notes / f"jobmanager-{gone.stdout.strip()}.pid").write_text(f"{gone.stdout.strip()} 1.0\n")
    assert files.by_hand() == []
    assert not notes.exists()


def test_a_status_without_a_cluster_says_where_it_looked_and_what_to_do(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["cluster", "status", "--dir", str(tmp_path)])
    assert result.exit_code == 1
    assert result.output == f"No cluster in {tmp_path / 'clusters' / 'default'}: {NOT_SEEN}\n"
