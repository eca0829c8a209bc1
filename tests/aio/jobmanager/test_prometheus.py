"""``/metrics`` of a JobManager: Flink's names and labels, as Prometheus' own parser reads them."""

from __future__ import annotations

import os
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.aio.jobmanager.callers import NOBODY, answers_by_role, audit_files, bearer, one_of_each
from tests.aio.jobmanager.cluster import JOB, cluster, start_job, watch_until
from tests.contract.metrics.flink_names import recorded, served, unused_reasons
from tests.ports import free_port
from tidegate.aio.local_users import LocalUsers, Place
from tidegate.aio.prometheus import FACTORY, METRICS_ROLES, Sample, exposition, is_configured, ports_of, serve_metrics
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.security.user_file import remove_user
from tidegate.security.users import Role


async def scraped(port: int) -> dict[str, tuple[dict[str, str], float]]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/plain")
        families = text_string_to_metric_families(await answer.text())
        return {sample.name: (sample.labels, sample.value) for family in families for sample in family.samples}


async def test_a_scrape_of_a_running_job(tmp_path: Path) -> None:
    port = free_port()
    texts = {"metrics.reporters": "prom", "metrics.reporter.prom.port": str(port)}
    async with cluster("tm-1", **texts) as (client, _, __):
        before = await scraped(port)
        assert before["flink_jobmanager_taskSlotsTotal"] == ({"host": "localhost"}, 2.0)
        assert before["flink_jobmanager_Status_Process_Memory_Resident"][1] > 1_000_000
        settings = {"execution_checkpointing_interval": "50 ms", "execution_checkpointing_dir": str(tmp_path)}
        await start_job(client, **settings)
        await watch_until(client, JOB, lambda status: status.checkpoints_completed >= 2)
        found = await scraped(port)
    wanted = recorded("jobmanager")
    assert wanted.keys() - found.keys() == set(), "names of Flink that are not served, and have no reason"
    assert {name: set(found[name][0]) for name in wanted} == wanted
    labels, completed = found["flink_jobmanager_job_numberOfCompletedCheckpoints"]
    assert labels == {"host": "localhost", "job_id": JOB, "job_name": "trivial"}
    assert completed >= 2
    assert found["flink_jobmanager_job_lastCheckpointDuration"][1] >= 0
    assert found["flink_jobmanager_numRunningJobs"][1] == 1
    assert found["flink_jobmanager_job_lastCheckpointExternalPath"][1] == 0, "as Flink's reporter writes a text"


class Told(LocalUsers):
    """A kernel that gives one answer."""

    def __init__(self, user: int) -> None:
        super().__init__()
        self._user = user

    async def of(self, client: Place, server: Place) -> int | None:
        return self._user


@pytest.mark.skipif(not LocalUsers.can_tell(), reason="the kernel of this system has no /proc/net/tcp")
@pytest.mark.parametrize(
    ("user", "settings", "status"),
    [
        (os.geteuid(), {}, 200),
        (os.geteuid() + 4711, {}, 403),
        (os.geteuid() + 4711, {"tidegate.security.insecure": "true"}, 200),
    ],
    ids=["its own", "another one", "another one of an insecure cluster"],
)
async def test_without_users_a_scrape_is_of_the_user_whose_process_it_is(
    user: int, settings: dict[str, str], status: int
) -> None:
    text = {"metrics.reporter.prom.factory.class": FACTORY, "metrics.reporter.prom.port": str(free_port())}
    samples = [Sample("jobmanager", "n", {"host": "a"}, 1.0)]
    configuration = Configuration.from_strings({**text, **settings})
    serving = await serve_metrics(configuration, "127.0.0.1", lambda: samples, Told(user))
    assert serving is not None
    port, stop = serving
    try:
        async with aiohttp.ClientSession() as session:
            for path in METRICS_ROLES:
                async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                    assert answer.status == status
                    said = await answer.text()
                    assert ("flink_jobmanager_n" in said) == (status == 200)
                    assert ("the connection is of the user with the id" in said) == (status == 403)
    finally:
        await stop()


async def test_where_there_are_users_a_scrape_has_the_token_of_one(tmp_path: Path) -> None:
    port, users = free_port(), tmp_path / "users"
    tokens = one_of_each(users)
    text = {"metrics.reporter.prom.factory.class": FACTORY, "metrics.reporter.prom.port": str(port)}
    configuration = Configuration.from_strings(
        {**text, "tidegate.security.users.file": str(users), "env.log.dir": str(tmp_path)}
    )
    serving = await serve_metrics(configuration, "127.0.0.1", lambda: ())
    assert serving is not None
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            for path, needed in METRICS_ROLES.items():
                assert set((await answers_by_role(session, path, needed, tokens)).values()) == {200}
            async with session.get("/nothing") as answer:
                assert answer.status == 404
            remove_user(users, "the-view")
            async with session.get("/metrics", headers=bearer(tokens[Role.VIEW])) as answer:
                assert (answer.status, await answer.text()) == (401, "the token belongs to no user of this cluster\n")
    finally:
        await serving[1]()
    [told] = [file.read_text() for file in audit_files(tmp_path)]
    assert told.count('"what": "GET /metrics"') == len(NOBODY) + 1
    assert not any(token in told for token in tokens.values())


def test_of_flinks_171_names_140_are_here() -> None:
    assert served() >= 140


def test_every_reason_for_an_absent_name_has_a_name() -> None:
    assert unused_reasons() == []


async def test_the_next_port_of_a_range_and_none_at_all(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    text = {"metrics.reporter.prom.factory.class": FACTORY, "metrics.reporter.prom.port": str(port)}
    configuration = Configuration.from_strings(text)
    first = await serve_metrics(configuration, "127.0.0.1", lambda: ())
    assert first is not None
    assert first[0] == port
    try:
        assert await serve_metrics(configuration, "127.0.0.1", lambda: ()) is None, "in use: logged, and no more"
        assert (
            f"cannot start the Prometheus reporter on 127.0.0.1:{port}: Address already in use; choose another port with "
            "-D metrics.reporter.prom.port=PORT, or metrics.reporter.prom.port in config.yaml" in caplog.text
        )
        wider = Configuration.from_strings({**text, "metrics.reporter.prom.port": f"{port}-{port + 20}"})
        second = await serve_metrics(wider, "127.0.0.1", lambda: ())
        assert second is not None
        assert port < second[0] <= port + 20
        await second[1]()
    finally:
        await first[1]()


def test_nobody_asked() -> None:
    assert not is_configured(Configuration.from_strings({}))
    assert not is_configured(Configuration.from_strings({"metrics.reporter.prom.port": "9250"}))


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("metrics.reporters", "prom;jmx", "no reporter jmx"),
        ("metrics.reporter.prom.factory.class", "com.example.Mine", "only org.apache.flink"),
    ],
)
def test_a_reporter_that_is_not_here(key: str, text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        is_configured(Configuration.from_strings({key: text}))


@pytest.mark.parametrize("text", ["", "many", "9260-9250", "70000", "-1"])
def test_what_is_no_port(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"metrics\.reporter\.prom\.port"):
        ports_of(text)


def test_names_and_labels_hold_what_prometheus_allows() -> None:
    sample = Sample("taskmanager", "Status.JVM.CPU.Load", {"job_name": "a job: {1}\n"}, 0.5)
    text = exposition([sample]).decode()
    assert 'flink_taskmanager_Status_JVM_CPU_Load{job_name="a_job:__1__"} 0.5' in text
