"""A failure of a job with state, between processes: `tidegate replay` raises the same exception at the same record, from a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.jobs import poisoned

POISON, LIMIT_S = 900, 120


def test_the_failure_of_a_job_comes_again_at_its_record(cluster: Cluster, run_directory: Path) -> None:
    failures = f"tidegate.replay.directory={run_directory / 'failures'}"
    settings = {
        "execution.checkpointing.dir": str(run_directory / "checkpoints"),
        "tidegate.replay.enabled": "true",
        "tidegate.replay.directory": str(run_directory / "failures"),
        "restart-strategy.type": "none",
    }
    watch = cluster.submit(JOBS / "poisoned.py", f"--poison={POISON}", parallelism=2, settings=settings)
    watch.wait_for(lambda moment: moment.status.state == "FAILED", LIMIT_S, "the job fails")

    listed = cluster.cli("replay", "--json", "-D", failures)
    assert listed.returncode == 0, listed.stderr
    (kept,) = [json.loads(line) for line in listed.stdout.splitlines()]
    message = f"ValueError: the total would be {poisoned.total_at(POISON)}"
    assert message in kept["message"]
    assert kept["checkpoint"] > 0, "no checkpoint was complete before the failure"
    assert kept["hash_seed"] == "0"

    replayed = cluster.cli("replay", kept["id"][:-1], "-D", failures, "--check")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "It failed again with the same exception, at record" in replayed.stdout
    assert f": {POISON}\n" in replayed.stdout
    assert message in replayed.stdout
    assert "poisoned.py" in replayed.stdout, "the user's line is not shown"
    assert "The replay is not what the subtask did" not in replayed.stdout

    watched = cluster.cli("replay", kept["id"], "-D", failures, "--watch", "total", "--last", "3")
    assert watched.returncode == 0, watched.stderr
    assert str(poisoned.total_at(POISON) - POISON) in watched.stdout

    out = run_directory / "copy"
    redacted = cluster.cli("replay", kept["id"], "-D", failures, "--redact", str(out), "--keep", "value")
    assert redacted.returncode == 0, redacted.stdout + redacted.stderr
    assert "The copy fails with the same exception, at record" in redacted.stdout
    again = cluster.cli("replay", str(out), "--json", "-D", failures)
    assert again.returncode == 0, again.stdout + again.stderr
    shown = json.loads(again.stdout)
    assert (shown["reproduced"], shown["value"]) == (True, str(POISON))
    assert message not in shown["message"], "the total in state is that of the original"

    mended = run_directory / "mended.py"
    mended.write_text((JOBS / "poisoned.py").read_text().replace('"store_true"', '"store_false"'))
    tried = cluster.cli("replay", kept["id"], "-D", failures, "--program", str(mended))
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert "It does not fail" in tried.stdout
    not_mended = cluster.cli("replay", kept["id"], "-D", failures, "--program", str(JOBS / "poisoned.py"))
    assert not_mended.returncode == 1, not_mended.stdout + not_mended.stderr
    assert "It still fails, at record" in not_mended.stdout


def test_the_failure_of_a_function_in_sql_comes_again(cluster: Cluster, run_directory: Path) -> None:
    failures = f"tidegate.replay.directory={run_directory / 'failures'}"
    settings = {
        "execution.checkpointing.dir": str(run_directory / "checkpoints"),
        "execution.checkpointing.interval": "300 ms",
        "tidegate.replay.enabled": "true",
        "tidegate.replay.directory": str(run_directory / "failures"),
        "restart-strategy.type": "none",
    }
    message = f"ValueError: the total is {poisoned.total_at(POISON)}"
    watch = cluster.submit(
        JOBS / "poisoned_table.py", f"--total={poisoned.total_at(POISON)}", parallelism=1, settings=settings
    )
    watch.wait_for(lambda moment: moment.status.state == "FAILED", LIMIT_S, "the job fails")

    (kept,) = [json.loads(line) for line in cluster.cli("replay", "--json", "-D", failures).stdout.splitlines()]
    assert message in kept["message"]
    assert kept["checkpoint"] > 0, "no checkpoint was complete before the failure"
    replayed = cluster.cli("replay", kept["id"], "--json", "-D", failures)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    said = json.loads(replayed.stdout)
    assert (said["reproduced"], said["message"], said["differences"]) == (True, kept["message"], [])
    assert said["at"].startswith(("at record", "at one of the records"))

    program = (JOBS / "poisoned_table.py").read_text()
    mended = run_directory / "mended_table.py"
    mended.write_text(program.replace('"store_true"', '"store_false"'))
    tried = cluster.cli("replay", kept["id"], "-D", failures, "--program", str(mended))
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert "It does not fail" in tried.stdout
    not_mended = cluster.cli("replay", kept["id"], "-D", failures, "--program", str(JOBS / "poisoned_table.py"))
    assert not_mended.returncode == 1, not_mended.stdout + not_mended.stderr
    assert "It still fails, at" in not_mended.stdout
