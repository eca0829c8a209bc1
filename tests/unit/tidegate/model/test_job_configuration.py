"""What of a configuration goes with a job."""

from __future__ import annotations

import pytest

from tidegate.model.configuration import Configuration
from tidegate.model.job_configuration import drop_of_processes, hidden_keys, hide, is_of_processes, may_travel
from tidegate.model.masking import is_sensitive
from tidegate.model.options import SecurityOptions, declared, is_of_a_job, options_of


def test_no_job_carries_what_processes_prove_themselves_with() -> None:
    ours = [option.key for option in options_of(SecurityOptions) if option.key != SecurityOptions.DATA_ENABLED.key]
    assert [key for key in ours if not is_of_processes(key)] == []


def test_each_sensitive_option_of_ours_is_of_processes_or_of_a_job() -> None:
    assert [key for key in declared() if is_sensitive(key) and not (is_of_processes(key) or is_of_a_job(key))] == []


@pytest.mark.parametrize(
    "key",
    [
        "security.ssl.internal.key-password",
        "security.kerberos.login.keytab",
        "tidegate.security.token-file",
        "metrics.reporter.dd.apikey",
        "containerized.master.env.AWS_SECRET_ACCESS_KEY",
        "kubernetes.secrets",
        "user.artifacts.http-headers",
    ],
)
def test_secrets_of_processes(key: str) -> None:
    assert is_of_processes(key)


@pytest.mark.parametrize(
    "key",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "s3.secret-key",
        "pipeline.name",
        "metrics.reporter.dd.port",
        "jobmanager.rpc.port",
    ],
)
def test_what_a_job_needs_or_everybody_may_see_stays(key: str) -> None:
    assert not is_of_processes(key)


def test_what_is_left_out_is_named() -> None:
    texts = {"tidegate.security.token": "t", "parallelism.default": "2", "security.ssl.key-password": "p"}
    assert Configuration.from_strings(texts).only(may_travel).to_strings() == {"parallelism.default": "2"}
    assert drop_of_processes(texts) == ("security.ssl.key-password", "tidegate.security.token")
    assert texts == {"parallelism.default": "2"}


def test_secrets_that_stay_are_hidden_from_who_looks() -> None:
    texts = {"s3.secret-key": "of the job", "parallelism.default": "2", "s3.access-key": ""}
    hide(texts)
    assert texts == {"s3.secret-key": "******", "parallelism.default": "2", "s3.access-key": ""}
    assert hidden_keys(texts) == ("s3.secret-key",)
