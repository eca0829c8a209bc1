"""Results that come back to the program, and what a program brings with it, on a real cluster."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import JOBS, Cluster

JOB = str(JOBS / "collected.py")


def run(cluster: Cluster, *arguments: str) -> str:
    done = cluster.cli("run", "--jobmanager", cluster.address, "-p", "2", JOB, *arguments, limit_s=200)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{cluster.logs()}"
    return done.stdout


def test_results_come_once_though_the_job_failed_on_the_way(cluster: Cluster, tmp_path: Path) -> None:
    assert "collected 20000, each once: True, failed: True" in run(cluster, "numbers", str(tmp_path / "failed"))


def test_modules_archives_and_requirements_travel_with_the_job(cluster: Cluster, tmp_path: Path) -> None:
    assert "brought [9, 12, 15]" in run(cluster, "brought", str(tmp_path))


def test_accumulators_are_exact_when_the_job_is_over(cluster: Cluster, tmp_path: Path) -> None:
    told = run(cluster, "counted", str(tmp_path / "output"))
    assert "counted {'rests': {0: 20000, 1: 20000}, 'seen': 40000}\ntold again: True" in told
