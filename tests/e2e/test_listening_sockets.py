"""The sockets that listen in a cluster that runs a job are those of the guide's table, at loopback alone."""

from __future__ import annotations

import contextlib
import ipaddress
from collections import Counter
from pathlib import Path

import psutil

from tests.e2e.cluster import REPOSITORY, Cluster, Proc
from tests.e2e.counts_run import CountsRun
from tests.e2e.waiting import HANG_LIMIT_S

GUIDE = REPOSITORY / "docs" / "guide" / "operations.md"


def test_the_kernel_says_what_the_table_says(cluster: Cluster, tmp_path: Path) -> None:
    run = CountsRun(tmp_path, seconds=8, rows=20_000)
    watch = run.submit(cluster)
    watch.wait_checkpoints(1)
    assert cluster.job_manager is not None
    told = expected()
    assert listening(cluster.job_manager, "jobmanager") == {"jobmanager": told.pop("jobmanager")}
    assert len(cluster.task_managers) == 2
    for task_manager in cluster.task_managers:
        assert listening(task_manager, "taskmanager") == told
    watch.wait_finished(HANG_LIMIT_S)


def expected() -> dict[str, int]:
    """How many ports processes of each kind have by default."""
    section = GUIDE.read_text(encoding="utf-8").partition("### Which sockets listen\n")[2].partition("\n### ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| ")
    ]
    counts: Counter[str] = Counter()
    for process, _, by_default, ports, *_ in rows[1:]:
        counts[process] += int(ports)
        assert ports == "0" or by_default.startswith("loopback"), process
    return {process: count for process, count in counts.items() if count}


def listening(process: Proc, name: str) -> dict[str, int]:
    """How many TCP ports the process and its children listen at, by kind; each at loopback addresses alone."""
    found: dict[str, set[int]] = {}
    for member in process.family():
        with contextlib.suppress(psutil.NoSuchProcess):
            kind = "java" if member.name() == "java" else name if member.pid == process.pid else "subtask"
            for one in member.net_connections("tcp"):
                if one.status == psutil.CONN_LISTEN:
                    address = ipaddress.ip_address(one.laddr.ip.removeprefix("::ffff:"))
                    assert address.is_loopback, (kind, one.laddr)
                    found.setdefault(kind, set()).add(one.laddr.port)
    return {kind: len(ports) for kind, ports in found.items()}
