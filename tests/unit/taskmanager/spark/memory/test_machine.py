"""What the files of Linux say of the memory that is left: of the machine, and of control groups of both versions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.taskmanager.machines.memory.shortage import MemoryPool
from tidegate.taskmanager.spark.memory.machine import TITLE, MachineMemory, other_subtasks, read_pools, total_bytes

MIB = 1 << 20
MACHINE = MemoryPool("the machine", "MemTotal of /proc/meminfo", 8192 * MIB, 4196 * MIB)
TAKES_200_MIB = (
    f"import sys, setproctitle; setproctitle.setproctitle('{TITLE} map (1/1)#0 of job'); kept = bytearray(b'x') * (200 << 20); "
    "print('ready', flush=True); sys.stdin.read()"
)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it is read from /proc")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    figures = {"MemTotal": 8192, "MemFree": 100, "MemAvailable": 4096, "SwapFree": 100}
    lines = "".join(f"{name}:    {mib << 10} kB\n" for name, mib in figures.items())
    (tmp_path / "proc" / "meminfo").write_text(lines + "HugePages_Total:       0\n")
    return tmp_path / "proc"


def group(root: Path, path: str, **files: str) -> None:
    directory = root / path
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)


def test_where_there_is_no_proc_nothing_is_known(tmp_path: Path) -> None:
    assert read_pools(tmp_path, tmp_path) == []


def test_free_swap_counts_as_what_is_left(proc: Path, tmp_path: Path) -> None:
    assert read_pools(proc, tmp_path) == [MACHINE]


def test_a_group_of_version_2_and_those_above_it_bound_and_cached_files_do_not_count(
    proc: Path, tmp_path: Path
) -> None:
    (proc / "self" / "cgroup").write_text("0::/pods/one\n")
    files = (
        f"anon {700 * MIB}\nfile {250 * MIB}\ninactive_file {100 * MIB}\nactive_file {50 * MIB}\nslab_reclaimable 0\n"
    )
    group(tmp_path, "pods/one", memory__max=f"{1000 * MIB}\n", memory__current=f"{900 * MIB}\n", memory__stat=files)
    group(tmp_path, "pods", memory__max="max\n", memory__current=f"{900 * MIB}\n", memory__stat=files)
    assert read_pools(proc, tmp_path) == [
        MACHINE,
        MemoryPool("its control group", "memory.max of /pods/one", 1000 * MIB, 250 * MIB, "/pods/one"),
    ]
    group(tmp_path, "pods/one", memory__swap__max=f"{30 * MIB}\n", memory__swap__current=f"{10 * MIB}\n")
    assert read_pools(proc, tmp_path)[1].left_bytes == 270 * MIB
    group(tmp_path, "pods/one", memory__swap__max="max\n")
    assert read_pools(proc, tmp_path)[1].left_bytes == 350 * MIB


def test_a_container_sees_its_group_at_the_root_although_it_is_named_by_its_path(proc: Path, tmp_path: Path) -> None:
    (proc / "self" / "cgroup").write_text("0::/docker/abc\n")
    group(tmp_path, "", memory__max=f"{1000 * MIB}\n", memory__current=f"{900 * MIB}\n", memory__stat="anon 1\n")
    assert [(each.left_bytes, each.group) for each in read_pools(proc, tmp_path)][1:] == [(100 * MIB, "/")]


def test_a_group_of_version_1_without_a_bound_has_a_number_above_that_of_the_machine(
    proc: Path, tmp_path: Path
) -> None:
    (proc / "self" / "cgroup").write_text("5:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n")
    files = f"cache 1\ntotal_inactive_file {5 * MIB}\ntotal_active_file {5 * MIB}\n"
    bounded = {"memory__limit_in_bytes": f"{500 * MIB}\n", "memory__usage_in_bytes": f"{480 * MIB}\n"}
    free = {"memory__limit_in_bytes": "9223372036854771712\n", "memory__usage_in_bytes": f"{480 * MIB}\n"}
    group(tmp_path, "memory/a/b", memory__stat=files, **bounded)
    group(tmp_path, "memory/a", memory__stat=files, **free)
    assert read_pools(proc, tmp_path) == [
        MACHINE,
        MemoryPool("its control group", "memory.limit_in_bytes of /a/b", 500 * MIB, 30 * MIB, "/a/b"),
    ]


@pytest.fixture
def subtask() -> Iterator[subprocess.Popen[str]]:
    """A process with the title of a subtask."""
    with subprocess.Popen(
        [sys.executable, "-c", TAKES_200_MIB], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.communicate("")


@linux
def test_the_subtasks_of_other_task_managers_are_seen_by_their_titles(subtask: subprocess.Popen[str]) -> None:
    assert total_bytes() > 0
    assert other_subtasks([], "")[subtask.pid] > 200 * MIB
    assert subtask.pid not in other_subtasks([subtask.pid], "")
    assert subtask.pid not in other_subtasks([], "/no/such/group")


@linux
def test_what_is_more_than_the_size_that_is_set_ends_and_what_is_not_stays(subtask: subprocess.Popen[str]) -> None:
    enough = MachineMemory(10_000 * MIB)
    assert enough.look([subtask.pid]) is None
    scarce = MachineMemory(250 * MIB)
    overrun = scarce.look([subtask.pid])
    assert overrun is not None
    assert (overrun.pid, overrun.subtasks, overrun.reserve_bytes) == (subtask.pid, 1, 128 * MIB)
    assert overrun.size_bytes > 200 * MIB
    assert scarce.interval_s < enough.interval_s
    assert scarce.look([], [subtask.pid]) is None, "a sibling's own process ends it"
    assert MachineMemory(250 * MIB, 0).look([subtask.pid]) is None, "no reserve"
