"""External resources that a configuration declares (Flink: ``ExternalResourceOptions.java``).

external-resources: gpu
external-resource.gpu.amount: 2
external-resource.gpu.driver-factory.class: my_drivers:make_gpus        or GPUDriverFactory
external-resource.gpu.param.discovery-script.path: /opt/find_gpus.sh
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.model.errors import ConfigurationError

_PREFIX = "external-resource."
_FACTORY = "driver-factory.class"
_PARAMETER = "param."
_WORD = re.compile(r"[A-Za-z0-9_-]+")
GPU_FACTORY = "org.apache.flink.externalresource.gpu.GPUDriverFactory"
"""Flink's class name of the driver that runs a discovery script, which is built into the TaskManager here."""


@dataclass(frozen=True, slots=True)
class ExternalResource:
    """A declared external resource. ``factory``: makes its driver; empty: there is none, and functions get no information about it."""

    name: str
    amount: int
    factory: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def declared_resources(names: Sequence[str], texts: Mapping[str, str]) -> tuple[ExternalResource, ...]:
    """Parses the external resources of a configuration. ``names``: of ``external-resources``; ``none`` stands for none. Raises ``ConfigurationError``
    that lists every problem."""
    problems: list[str] = []
    found = [_declared(name, texts, problems) for name in dict.fromkeys(names) if name.lower() != "none"]
    if problems:
        raise ConfigurationError("bad configuration: " + "; ".join(problems))
    return tuple(found)


def _declared(name: str, texts: Mapping[str, str], problems: list[str]) -> ExternalResource:
    mine = {
        key.removeprefix(f"{_PREFIX}{name}."): text
        for key, text in texts.items()
        if key.startswith(f"{_PREFIX}{name}.")
    }
    amount = mine.get("amount", "")
    if not _WORD.fullmatch(name):
        problems.append(f"external-resources: {name!r} is no name; use letters, digits, '-' and '_'")
    elif not (amount.isdigit() and int(amount) > 0):
        problems.append(f"{_PREFIX}{name}.amount is {amount or 'not set'}; it must be a number of at least 1")
    factory = mine.get(_FACTORY, "")
    if factory.rpartition(".")[2] == GPU_FACTORY.rpartition(".")[2]:
        factory = GPU_FACTORY
    elif factory and ":" not in factory:
        problems.append(f"{_PREFIX}{name}.{_FACTORY} is {factory!r}; give module:callable, or GPUDriverFactory")
    parameters = {key.removeprefix(_PARAMETER): text for key, text in mine.items() if key.startswith(_PARAMETER)}
    return ExternalResource(name, int(amount) if amount.isdigit() else 0, factory, parameters)
