"""Discovers the external resources of this machine that the configuration names, once at the start of the TaskManager.

    declaration ─▶ driver ─▶ its properties, one mapping for each piece ─▶ settings of every subtask ─▶ ``RuntimeContext``

As in Flink, every subtask of a TaskManager sees all resources of its machine. On a Spark cluster subtasks run on other machines: there Spark discovers and
assigns resources (``spark.executor.resource.<name>.*``), and a subtask sees those of its Spark task.
"""

from __future__ import annotations

import importlib
import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence

from tidegate.common.externalresource import ExternalResourceDriver, ExternalResourceInfo
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, ExternalError
from tidegate.model.options import TaskManagerOptions
from tidegate.model.options.external_resources import GPU_FACTORY, ExternalResource, declared_resources

_SCRIPT_LIMIT_S = 10.0
"""Seconds for a discovery script: Flink's limit."""
_NVIDIA = ("nvidia-smi", "--query-gpu=index", "--format=csv,noheader")
"""The command that is run where no script is configured, as in Flink's own script."""
_PATH, _ARGUMENTS = "discovery-script.path", "discovery-script.args"


def declared_in(configuration: Configuration) -> tuple[ExternalResource, ...]:
    """Returns the external resources that the configuration declares. Raises ``ConfigurationError``."""
    names = configuration.get(TaskManagerOptions.EXTERNAL_RESOURCES)
    return declared_resources(names or (), configuration.to_strings())


def discover(resources: Sequence[ExternalResource]) -> str:
    """Asks each driver; returns the properties of the found units as JSON, by name of the resource. Blocks. Raises ``ConfigurationError`` for a driver that
    cannot be made, and ``ExternalError`` for one that fails or finds too few.
    """
    return json.dumps({resource.name: _found(resource) for resource in resources if resource.factory})


def _found(resource: ExternalResource) -> list[dict[str, str]]:
    driver = _make_driver(resource)
    try:
        infos = driver.retrieve_resource_info(resource.amount)
    except Exception as error:
        raise ExternalError(
            f"external resource {resource.name!r}: its driver failed ({type(error).__name__}: {error})"
        ) from error
    if len(infos) < resource.amount:
        raise ExternalError(
            f"external resource {resource.name!r}: its driver found {len(infos)}, and external-resource.{resource.name}.amount is {resource.amount}"
        )
    properties = [{key: info.get_property(key) or "" for key in sorted(info.get_keys())} for info in infos]
    return sorted(properties, key=lambda each: sorted(each.items()))


def _make_driver(resource: ExternalResource) -> ExternalResourceDriver:
    if resource.factory == GPU_FACTORY:
        return GpuDriver(resource.parameters)
    module, _, name = resource.factory.partition(":")
    try:
        driver = getattr(importlib.import_module(module), name)(dict(resource.parameters))
    except Exception as error:
        raise ConfigurationError(
            f"bad configuration: external-resource.{resource.name}.driver-factory.class {resource.factory!r} makes no driver "
            f"({type(error).__name__}: {error}); the TaskManager must be able to import it"
        ) from error
    if not isinstance(driver, ExternalResourceDriver):
        raise ConfigurationError(
            f"bad configuration: external-resource.{resource.name}.driver-factory.class {resource.factory!r} made a "
            f"{type(driver).__name__}; make a tidegate.common.externalresource.ExternalResourceDriver"
        )
    return driver


class GpuDriver(ExternalResourceDriver):
    """The driver of GPUs: runs a discovery script with the amount and its arguments, which prints the indices of GPUs, separated by commas (Flink:
    ``GPUDriver.java``).
    """

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._script = parameters.get(_PATH, "")
        self._arguments = shlex.split(parameters.get(_ARGUMENTS, ""))

    def retrieve_resource_info(self, amount: int) -> set[ExternalResourceInfo]:
        command = [self._script, str(amount), *self._arguments] if self._script else list(_NVIDIA)
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SCRIPT_LIMIT_S, check=False)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise ExternalError(
                f"{command[0]} ended with exit code {done.returncode}: {said[-1] if said else 'without output'}"
            )
        indices = [index.strip() for index in done.stdout.replace("\n", ",").split(",") if index.strip()]
        return {ExternalResourceInfo({"index": index}) for index in indices[:amount]}
