"""The names that the reference describes. That each stands on a page is checked where pages are made: `.ci/docs` fails without one."""

from __future__ import annotations

from sphinx.util.inspect import signature, stringify_signature

from docs._sphinx.named_types import named_types
from docs._sphinx.public_api import MODULES, docstring_of, names_of, public_names, refusal_of
from tidegate.functions.interfaces import AggregateFunction


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


def test_signatures_of_the_reference_name_what_users_make() -> None:
    shown = stringify_signature(signature(AggregateFunction.add, type_aliases={name: name for name in named_types()}))
    assert shown == "(self, value: Record, accumulator: Accumulated) -> Accumulated"
