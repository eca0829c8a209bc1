"""Secrets are hidden in texts, whichever way they got there, and nothing else is."""

from __future__ import annotations

import json
import logging

import pytest

from tidegate.aio.logs import JsonFormatter, LineFormatter
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ErrorInfo, ExternalError
from tidegate.model.masking import HIDDEN, SECRETS, Secrets, is_sensitive

VALUE = "correct-horse/battery+staple"

PEM = """-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7
VJTUt9Us8cKjMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDu
-----END PRIVATE KEY-----"""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://AKIA:abc/def+g@bucket/x is not there", "s3://AKIA:******@bucket/x is not there"),
        ("postgresql://u:p%40ss@db:5432/x?sslmode=off", "postgresql://u:******@db:5432/x?sslmode=off"),
        ("http://h:8081/a?mail=me@there", "http://h:8081/a?mail=me@there"),
        ("http://[::1]:8081/a@b", "http://[::1]:8081/a@b"),
        ("file:///tmp/chk-1 of me@there", "file:///tmp/chk-1 of me@there"),
        ("host=db password=abc dbname=x", "host=db password=****** dbname=x"),
        ("host=db password='a b' dbname=x", "host=db password=****** dbname=x"),
        ("-Ds3.secret-key=abc -Drest.port=1", "-Ds3.secret-key=****** -Drest.port=1"),
        ("?secret_key=abc&region=eu", "?secret_key=******&region=eu"),
        ("WITH ('password' = 'it''s', 'topic' = 'x')", "WITH ('password' = '******', 'topic' = 'x')"),
        ('{"sasl.password": "a\\"b", "x": "y"}', '{"sasl.password": "******", "x": "y"}'),
        ("Config(password='abc', port=1)", "Config(password=******, port=1)"),
        ('module required username="u" password="abc";', 'module required username="u" password=******;'),
        (f"key {PEM} behind", "key ****** behind"),
        (f"cut off {PEM[:80]}", "cut off ******"),
        ("set security.ssl.internal.key-password: it is not given", "set security.ssl.internal.key-password: it is not given"),
        ("LogicalProject(password=[$2], n=[$1])", "LogicalProject(password=[$2], n=[$1])"),
        ("the token of its job", "the token of its job"),
    ],
)  # fmt: skip
def test_secrets_that_show_themselves(text: str, shown: str) -> None:
    secrets = Secrets()
    assert secrets.masked(text) == shown
    assert secrets.masked(shown) == shown
    assert json.loads(secrets.encoded({"a": [text, 1, None]})) == {"a": [shown, 1, None]}


def test_known_values_are_hidden_wherever_they_stand() -> None:
    secrets = Secrets()
    secrets.learn(
        {"s3.secret-key": VALUE, "rest.address": "jobmanager", "x.password": "abc", "y.token": "a\"b'c\u00e9def"}
    )
    assert secrets.masked(f"refused: {VALUE}!") == f"refused: {HIDDEN}!"
    assert secrets.masked("jobmanager abc") == "jobmanager abc", (
        "an address is none, and three letters are in many words"
    )
    assert secrets.masked_bytes(f"x {VALUE} y".encode()) == f"x {HIDDEN} y".encode()
    assert json.loads(secrets.encoded(["a\"b'c\u00e9def"])) == [HIDDEN]


def test_values_within_a_value_are_known_as_well() -> None:
    secrets = Secrets()
    secrets.learn({"sasl.jaas.config": 'x.ScramLoginModule required username="sales-app" password="pencil-7";'})
    assert secrets.masked("user sales-app said pencil-7") == f"user {HIDDEN} said {HIDDEN}"


def test_settings_with_the_name_of_a_secret_hide_no_words() -> None:
    secrets = Secrets()
    secrets.learn(
        {"security.delegation.tokens.renewal.retry.backoff": "1 hour", "a.token.b": "60 min", "c.token": "false"}
    )
    assert secrets.masked("in 1 hour, 60 min, false") == "in 1 hour, 60 min, false"
    secrets.learn({"a.password": "20260101"})
    assert secrets.masked("20260101") == HIDDEN


def test_fields_of_json_with_the_name_of_a_secret_are_hidden() -> None:
    found = Secrets().encoded({"user-config": {"api.password": "abc", "n": 1}, "token": "", "tokens": ["abc"]})
    assert json.loads(found) == {"user-config": {"api.password": HIDDEN, "n": 1}, "token": "", "tokens": ["abc"]}


def test_what_has_no_secret_stays_as_it_is() -> None:
    answer = {"a": 1.5, "b": [True, None, "x"], "c": "\u00e9"}
    assert Secrets().encoded(answer) == json.dumps(answer, separators=(",", ":"))


def test_errors_and_lines_of_a_log_are_masked() -> None:
    told = ExternalError("cannot read s3://a:secret-b@c/d", details="  connect('x://u:secret-b@c')")
    info = ErrorInfo.of(told)
    assert "secret-b" not in info.message + info.details
    for formatter in (LineFormatter(), JsonFormatter()):
        try:
            raise told
        except ExternalError as error:
            record = logging.LogRecord("x", 30, "y.py", 1, "%s", (error,), (type(error), error, None))
        assert "secret-b" not in formatter.format(record)
        assert HIDDEN in formatter.format(record)


def test_a_configuration_does_not_show_them() -> None:
    shown = repr(Configuration.from_strings({"s3.secret-key": "abc", "rest.port": "1"}))
    assert "abc" not in shown
    assert "'rest.port': '1'" in shown


def test_names() -> None:
    assert is_sensitive("fs.s3a.Secret.key")
    assert not is_sensitive("rest.port")
    assert SECRETS.masked("plain") == "plain"
