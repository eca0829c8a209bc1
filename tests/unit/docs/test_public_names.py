"""The names that the reference describes. That each stands on a page is checked where pages are made: `.ci/docs` fails without one."""

from __future__ import annotations

from sphinx.util.inspect import signature, stringify_signature

from docs._sphinx.named_types import named_types
from docs._sphinx.public_api import MODULES, docstring_of, names_of, public_names, refusal_of
from docs._sphinx.signature_types import types_named_by
from tidegate.functions.interfaces import AggregateFunction


def test_described_names_have_docstrings() -> None:
    silent = [name.path for name in public_names() if not docstring_of(name.value) and refusal_of(name.value) is None]
    assert silent == []


def test_modules_have_names_and_each_is_listed_once() -> None:
    assert len(MODULES) == len(set(MODULES))
    assert [module for module in MODULES if not names_of(module)] == []


def test_types_that_signatures_name_are_described_on_the_page_that_names_them() -> None:
    described = {name.path: name.page for name in public_names()}
    assert described["tidegate.functions.expressions.Expression"] == "tidegate.datastream.data_stream"
    assert described["tidegate.functions.interfaces.KeyedContext"] == "tidegate.datastream.functions"
    assert described["tidegate.functions.expressions.Expression.alias"] == "tidegate.datastream.data_stream"


def test_no_type_of_a_public_signature_is_left_out() -> None:
    """A base is shown by the public class of its name, with all of its methods."""
    described = [*public_names()]
    classes = {
        id(base) for name in described for base in getattr(name.value, "__mro__", ()) if base.__name__ == name.name
    }
    named = {
        kind for name in described for kind in types_named_by(name.value) if kind.__module__.startswith("tidegate")
    }
    left_out = {f"{kind.__module__}.{kind.__qualname__}" for kind in named if id(kind) not in classes}
    assert {path for path in left_out if "._" not in path and is_top_level(path)} == set()


def is_top_level(path: str) -> bool:
    """Nested classes stand with the class around them."""
    return not path.rpartition(".")[0].rpartition(".")[2][:1].isupper()


def test_names_of_java_say_that_they_refuse() -> None:
    pulsar = names_of("tidegate.datastream.connectors.pulsar")
    assert "use KafkaSource" in (refusal_of(pulsar["PulsarSource"]) or "")
    assert refusal_of(names_of("tidegate.datastream.connectors.kafka")["KafkaSource"]) is None


def test_signatures_of_the_reference_name_what_users_make() -> None:
    shown = stringify_signature(signature(AggregateFunction.add, type_aliases={name: name for name in named_types()}))
    assert shown == "(self, value: Record, accumulator: Accumulated) -> Accumulated"
