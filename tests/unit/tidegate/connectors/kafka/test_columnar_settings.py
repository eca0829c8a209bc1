"""Which properties may go by column, and what they say to the connections."""

from __future__ import annotations

import pytest

from tidegate.connectors.kafka.columnar.client_properties import connection_settings, goes_by_column, knows
from tidegate.connectors.kafka.markers import Markers
from tidegate.connectors.kafka.publisher import EpochPublisher
from tidegate.model.errors import ConfigurationError


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "u",
            "sasl.password": "p",
        },
        {"linger.ms": "5", "batch.size": "100000", "compression.type": "zstd", "acks": "all"},
        {"fetch.max.bytes": "1000000", "client.id": "me"},
    ],
)
def test_what_it_has_a_counterpart_for_it_knows(properties: dict[str, str]) -> None:
    assert knows(properties)


@pytest.mark.parametrize(
    "properties",
    [
        {"debug": "all"},
        {"security.protocol": "SASL_SSL"},  # by Kerberos, librdkafka's default
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"},
        {"partitioner": "consistent"},
        {"batch.size": "large"},
        {"enable.ssl.certificate.verification": "false"},
        {"ssl.ca.location": "probe"},
    ],
)
def test_what_only_librdkafka_has_decides_for_it(properties: dict[str, str]) -> None:
    assert not knows(properties)


def test_why_records_go_one_by_one_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    for _ in range(2):
        assert not goes_by_column({"statistics.interval.ms": "7"})
    told = [record.getMessage() for record in caplog.records if "statistics.interval.ms" in record.getMessage()]
    assert len(told) <= 1, "another test of this process may have been the first"


def test_properties_become_settings_of_the_connections() -> None:
    given = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
    }
    found = connection_settings({**given, "socket.timeout.ms": "7000"}, "a:1,b:2")
    assert found["bootstrap_servers"] == ["a:1", "b:2"]
    assert (found["security_protocol"], found["sasl_mechanism"]) == ("SASL_PLAINTEXT", "PLAIN")
    assert (found["sasl_plain_username"], found["sasl_plain_password"]) == ("u", "p")
    assert found["request_timeout_ms"] == 7000


def test_a_certificate_that_is_not_there_is_told_when_the_client_is_made() -> None:
    with pytest.raises(ConfigurationError, match="its certificates cannot be read"):
        connection_settings({"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"}, "a:1")


def test_a_size_that_is_no_number_is_refused_as_a_setting() -> None:
    publisher = EpochPublisher("127.0.0.1:1", {"batch.size": "many"}, "words", Markers("127.0.0.1:1", {}), "branch")
    with pytest.raises(ConfigurationError, match=r"batch\.size"):
        publisher.prepare(0)
