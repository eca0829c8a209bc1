"""A cluster with users, and TLS inside: a command with a token runs the main job, and one without says how to get in."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests import certificates
from tests.certificates import issue, make_authority
from tests.e2e.cluster import CLI_LIMIT_S, JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART, CountsRun
from tests.e2e.pool import made_ready
from tests.e2e.waiting import HANG_LIMIT_S
from tidegate.security.user_file import add_user
from tidegate.security.users import Role

LIMIT_S = 30


def test_a_user_runs_the_main_job_with_a_token_and_nobody_without(tmp_path: Path) -> None:
    now, validity = datetime.now(UTC), timedelta(days=1)
    authority = make_authority(now, validity)
    keystore, truststore = certificates.write_stores(tmp_path / "stores", authority, authority, now, validity)
    of_user = issue(authority, ["ada"], now, validity, is_user=True)
    own = tmp_path / "ada.pem"
    own.write_bytes(of_user.key_pem() + of_user.chain_pem())
    own.chmod(0o600)
    users = tmp_path / "users"
    tokens = {role: add_user(users, f"who-may-{role.value}", role) for role in (Role.VIEW, Role.DEPLOY)}
    settings = {
        "security.ssl.internal.enabled": "true",
        "security.ssl.internal.keystore": str(keystore),
        "security.ssl.internal.truststore": str(truststore),
        "tidegate.security.users.file": str(users),
        "env.log.dir": str(tmp_path / "logs"),
    }
    (tmp_path / "logs").mkdir()
    of_client = {
        "TIDEGATE_SECURITY_SSL_INTERNAL_KEYSTORE": str(own),
        "TIDEGATE_SECURITY_CLUSTER_NAME": certificates.CLUSTER_NAME,
    }
    with Cluster(tmp_path / "cluster", settings) as cluster:
        made_ready(cluster, 1)
        run = CountsRun(tmp_path / "run", seconds=2, rows=8_000, splits=2)
        command = ["run", "--detached", "--jobmanager", cluster.address, "-p", "2"]
        command += [f"-D{key}={text}" for key, text in QUICK_RESTART.items()]
        command += [f"-Dexecution.checkpointing.dir={run.checkpoints}", str(JOBS / "counts.py"), *run.arguments]

        def told(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
            return cluster.cli(*arguments, limit_s=CLI_LIMIT_S, **environment)

        def refused(environment: Mapping[str, str]) -> str:
            done = told(environment, *command)
            assert done.returncode != 0, done.stdout
            return done.stderr

        assert "this cluster admits only its users, and the call has no token" in refused(of_client)
        wrong = {**of_client, "TIDEGATE_SECURITY_TOKEN": "tgu_wrong"}
        assert "the token belongs to no user of this cluster" in refused(wrong)
        viewing = {**of_client, "TIDEGATE_SECURITY_TOKEN": tokens[Role.VIEW]}
        assert "who-may-view has the role view" in refused(viewing)
        assert told(viewing, "list", "--jobmanager", cluster.address).returncode == 0

        deploying = {**of_client, "TIDEGATE_SECURITY_TOKEN": tokens[Role.DEPLOY]}
        done = told(deploying, *command)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{cluster.logs()}"
        watch = cluster.watch(re.findall(r"\b[0-9a-f]{32}\b", done.stdout)[-1])
        watch.wait_for(lambda moment: moment.status.state == "FINISHED", HANG_LIMIT_S, "the job is FINISHED")
        run.assert_exact()

        url = f"http://localhost:{cluster.rest_port}/jobs/{watch.job_id}"
        with pytest.raises(urllib.error.HTTPError) as nobody:
            urllib.request.urlopen(url, timeout=LIMIT_S)
        assert nobody.value.code == 401
        nobody.value.close()
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {tokens[Role.VIEW]}"})
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            assert json.load(answer)["state"] == "FINISHED"
    written = [json.loads(line) for file in tmp_path.rglob("*.audit") for line in file.read_text().splitlines()]
    assert [one["user"] for one in written if one["what"].endswith("/SubmitJob") and one["result"] == "ok"] == [
        "who-may-deploy"
    ]
