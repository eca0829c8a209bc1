"""The names that the reference describes. That each stands on a page is checked where pages are made: `.ci/docs` fails without one."""

from __future__ import annotations

from docs._sphinx.public_api import MODULES, docstring_of, names_of, public_names, refusal_of


def test_described_names_have_docstrings() -> None:
    silent = [name.path for name in public_names() if not docstring_of(name.value) and refusal_of(name.value) is None]
    assert silent == []


def test_modules_have_names_and_each_is_listed_once() -> None:
    assert len(MODULES) == len(set(MODULES))
    assert [module for module in MODULES if not names_of(module)] == []


def test_names_of_java_say_that_they_refuse() -> None:
    pulsar = names_of("tidegate.datastream.connectors.pulsar")
    assert "use KafkaSource" in (refusal_of(pulsar["PulsarSource"]) or "")
    assert refusal_of(names_of("tidegate.datastream.connectors.kafka")["KafkaSource"]) is None
