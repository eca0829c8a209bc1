"""The public Python API: which modules it has, by topic, which names each of them has, and on whose page a name is described.

Modules have PyFlink's paths where PyFlink has them. A name may be found in several (``Row`` in ``tidegate.common`` and in
``tidegate.common.types``); it is described once, in the first module of the list that has it and is no package. A type of ours
that no listed module has, and that a public signature names (what a function receives as ``ctx``), is described on that page.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections import deque
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from docs._sphinx.signature_types import types_named_by

TOPICS: dict[str, str] = {
    "Jobs and streams": """
        tidegate.datastream
        tidegate.datastream.stream_execution_environment
        tidegate.datastream.data_stream
        tidegate.datastream.aggregates
        tidegate.datastream.functions
        tidegate.datastream.async_data_stream
        tidegate.datastream.async_retry_predicates
        tidegate.datastream.async_retry_strategies
        tidegate.datastream.output_tag
        tidegate.datastream.slot_sharing_group
        tidegate.datastream.execution_mode
    """,
    "Time, windows, state": """
        tidegate.datastream.window
        tidegate.datastream.state
        tidegate.datastream.timerservice
        tidegate.datastream.time_domain
        tidegate.cep
        tidegate.common.watermark_strategy
        tidegate.common.time
    """,
    "Checkpoints": """
        tidegate.datastream.checkpoint_config
        tidegate.datastream.checkpoint_storage
        tidegate.datastream.checkpointing_mode
        tidegate.datastream.externalized_checkpoint_retention
        tidegate.datastream.state_backend
        tidegate.common.restart_strategy
        tidegate.state_reader
        tidegate.state_processor
        tidegate.queryablestate
    """,
    "Types and records": """
        tidegate.common
        tidegate.common.typeinfo
        tidegate.common.types
        tidegate.common.serialization
        tidegate.common.serializer
        tidegate.common.io
    """,
    "Machines": """
        tidegate.common.externalresource
    """,
    "Jobs that run": """
        tidegate.common.configuration
        tidegate.common.config_options
        tidegate.common.execution_config
        tidegate.common.job_client
        tidegate.common.job_execution_result
        tidegate.common.job_id
        tidegate.common.job_status
        tidegate.common.completable_future
        tidegate.common.accumulators
        tidegate.common.input_dependency_constraint
        tidegate.metrics
        tidegate.model.errors
    """,
    "Connectors and formats": """
        tidegate.connectors.files
        tidegate.connectors.generators
        tidegate.connectors.kafka
        tidegate.connectors.postgres
        tidegate.connectors.hybrid
        tidegate.connectors.spark
        tidegate.connectors.delta
        tidegate.connectors.iceberg
        tidegate.connectors.jdbc
        tidegate.connectors.file_source
        tidegate.connectors.file_sink
        tidegate.connectors.number_sequence
        tidegate.connectors.throttle
        tidegate.connectors.postgres.sink
        tidegate.connectors.spark.sink
        tidegate.connectors.spark.writes
        tidegate.connectors.source
        tidegate.connectors.source.source
        tidegate.connectors.source.enumerator
        tidegate.connectors.source.reader
        tidegate.connectors.source.splits
        tidegate.connectors.source.serializers
        tidegate.connectors.base
        tidegate.functions.transactional_ids
        tidegate.datastream.connectors
        tidegate.datastream.connectors.base
        tidegate.datastream.connectors.file_system
        tidegate.datastream.connectors.hybrid_source
        tidegate.datastream.connectors.kafka
        tidegate.datastream.connectors.number_seq
        tidegate.datastream.formats.avro
        tidegate.datastream.formats.csv
        tidegate.datastream.formats.json
        tidegate.datastream.formats.orc
        tidegate.datastream.formats.parquet
        tidegate.datastream.formats.protobuf
    """,
    "Connectors of Java, which refuse": """
        tidegate.datastream.connectors.cassandra
        tidegate.datastream.connectors.dynamic_kafka
        tidegate.datastream.connectors.elasticsearch
        tidegate.datastream.connectors.jdbc
        tidegate.datastream.connectors.kinesis
        tidegate.datastream.connectors.pulsar
        tidegate.datastream.connectors.rabbitmq
    """,
    "Testing": """
        tidegate.testing
        tidegate.testing.plugin
        tidegate.testing.test_case_utils
        tidegate.datastream.tests.test_util
    """,
    "Tables": """
        tidegate.table
        tidegate.table.expressions
        tidegate.table.udf
        tidegate.table.window
    """,
    "PyFlink's other modules": """
        tidegate.util.api_stability_decorators
        tidegate.util.java_utils
    """,
}
MODULES: tuple[str, ...] = tuple(module for modules in TOPICS.values() for module in modules.split())
_REFUSAL = re.compile(r"stands for a Java class of Flink")


@dataclass(frozen=True)
class Name:
    """A public name: ``tidegate.common.types`` and ``Row``, or ``Row.as_dict`` of a class."""

    module: str
    name: str
    value: Any
    page: str = ""
    """The module on whose page it is described, if that is not its own."""

    @property
    def path(self) -> str:
        """As it is imported."""
        return f"{self.module}.{self.name}"


@cache
def names_of(module: str) -> dict[str, Any]:
    """The names of a module: its ``__all__``, else the classes and functions that it defines."""
    found = importlib.import_module(module)
    listed = getattr(found, "__all__", None)
    if listed is not None:
        return {name: getattr(found, name) for name in sorted(listed)}
    own = {name: value for name, value in vars(found).items() if not name.startswith("_")}
    return {
        name: value
        for name, value in sorted(own.items())
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module
    }


def refusal_of(value: Any) -> str | None:
    """What a name that stands for a Java class says when it is used; ``None`` of every other name."""
    text = inspect.getattr_static(value, "_refusal", None) if inspect.isclass(value) else None
    return text if isinstance(text, str) and _REFUSAL.search(text) else None


@cache
def homes() -> dict[int, Name]:
    """Where each object is described: ``id`` -> its module and name there. Values that are no objects of ours are left out."""
    found: dict[int, Name] = {}
    packages = [module for module in MODULES if _is_package(module)]
    for module in [*(module for module in MODULES if module not in packages), *packages]:
        for name, value in names_of(module).items():
            if _has_a_page(value):
                found.setdefault(id(value), Name(module, name, value, module))
    _add_types_of_signatures(found)
    return found


def _add_types_of_signatures(found: dict[int, Name]) -> None:
    """To the page that names them first, also those that a type which was added names itself."""
    names = deque(found.values())
    public = {name.name: name.value for name in names}
    while names:
        home = names.popleft()
        if refusal_of(home.value) is not None:
            continue
        for part in _with_members(home.value, found):
            for kind in types_named_by(part):
                if id(kind) not in found and _needs_a_page(kind, public):
                    found[id(kind)] = Name(kind.__module__, kind.__name__, kind, home.page)
                    names.append(found[id(kind)])


def _with_members(value: Any, described: Container[int]) -> Iterator[Any]:
    yield value
    if inspect.isclass(value):
        for member in _members(value, described).values():
            yield from _with_members(member, described)


def _needs_a_page(kind: type, public: Mapping[str, Any]) -> bool:
    """Not what is private; nor what is nested, which stands with the class around it; nor the base of a public class of its name."""
    path = f"{kind.__module__}.{kind.__qualname__}"
    namesake = public.get(kind.__name__)
    stands_for_it = inspect.isclass(namesake) and issubclass(namesake, kind)
    return _has_a_page(kind) and "._" not in path and kind.__qualname__ == kind.__name__ and not stands_for_it


def described_in(module: str) -> dict[str, Name]:
    """The names that this module's page describes: its own, then types that their signatures name."""
    here = [home for home in homes().values() if home.page == module]
    return {home.name: home for home in sorted(here, key=lambda home: home.module != module)}


def public_names() -> Iterator[Name]:
    """Every public name once: objects of modules, and the public methods and properties that classes of ours define."""
    seen: set[int] = set()
    for home in homes().values():
        yield home
        if inspect.isclass(home.value) and refusal_of(home.value) is None:
            for name, value in members_of(home.value).items():
                if id(value) not in seen:  # a private base gives its methods to several classes
                    seen.add(id(value))
                    yield Name(home.module, f"{home.name}.{name}", getattr(home.value, name), home.page)


def members_of(kind: type) -> dict[str, Any]:
    """Public methods, properties and nested classes, as the class itself or a private base of it defines them."""
    return _members(kind, homes())


def _members(kind: type, described: Container[int]) -> dict[str, Any]:
    """``described``: ids of what stands for itself; what such a base defines is shown there."""
    found: dict[str, Any] = {}
    for base in _own_and_private_bases(kind, described):
        for name, value in vars(base).items():
            if not name.startswith("_") and name not in found and _is_member(value):
                found[name] = value
    return found


def docstring_of(value: Any) -> str:
    """A class's own; of a function or a property also the one that it inherits. A dataclass's or enumeration's made-up one is none."""
    if not inspect.isclass(value):
        return (inspect.getdoc(value) or "").strip()
    own = inspect.cleandoc(vars(value).get("__doc__") or "")
    return "" if own.startswith(f"{value.__name__}(") else own


def _own_and_private_bases(kind: type, described: Container[int]) -> Iterator[type]:
    yield kind
    for base in kind.__mro__[1:]:
        if base.__module__.startswith("tidegate") and id(base) not in described:
            yield base


def _is_member(value: Any) -> bool:
    value = _function_of(value)
    return inspect.isroutine(value) or isinstance(value, property) or (inspect.isclass(value) and _has_a_page(value))


def _function_of(value: Any) -> Any:
    return value.__func__ if isinstance(value, classmethod | staticmethod) else value


def _has_a_page(value: Any) -> bool:
    if inspect.isclass(value) or inspect.isroutine(value):
        return bool(value.__module__.startswith("tidegate"))
    return False


def _is_package(module: str) -> bool:
    return hasattr(importlib.import_module(module), "__path__")
