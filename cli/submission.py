"""Prepares a job for submission: parses its configuration once, and returns what the client itself needs of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click

from tidegate.model.configuration import Configuration
from tidegate.model.graph import JobGraph
from tidegate.model.job_configuration import is_of_processes, may_travel
from tidegate.model.options import (
    CheckpointingOptions,
    ExecutionOptions,
    RuntimeOptions,
    StateRecoveryOptions,
)

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")
_DIRECTORIES = (CheckpointingOptions.DIRECTORY, CheckpointingOptions.SAVEPOINT_DIRECTORY)


@dataclass(frozen=True, slots=True)
class SubmittedGraph:
    """A job ready to be submitted.

    `graph` has absolute directories, since the JobManager's working directory differs from the user's. `of_processes`: configured options
    that do not go with the job; an embedded cluster is started with them. `restore_path`: empty for a start from nothing. `warnings`: about
    options without effect.
    """

    graph: JobGraph
    of_processes: Mapping[str, str]
    restore_path: str
    allow_non_restored_state: bool
    cancels_on_exit: bool
    shows_profile: bool
    warnings: tuple[str, ...]

    def print_warnings(self) -> None:
        for warning in self.warnings:
            click.echo(f"warning: {warning}", err=True)


def make_submission(graph: JobGraph, restore_path: str = "", allow_non_restored_state: bool = False) -> SubmittedGraph:
    """Prepares a job. The restore options of the command (``-s`` and ``-n``) take precedence over the job's configuration. Raises
    `ConfigurationError`.
    """
    configuration = Configuration.from_strings(graph.configuration)
    get = configuration.get
    path = restore_path or get(StateRecoveryOptions.PATH) or ""
    return SubmittedGraph(
        graph=replace(graph, configuration=_of_the_job(configuration)),
        of_processes={key: text for key, text in configuration.to_strings().items() if is_of_processes(key)},
        restore_path=absolute(path) if path else "",
        allow_non_restored_state=allow_non_restored_state or get(StateRecoveryOptions.IGNORE_UNCLAIMED),
        cancels_on_exit=get(ExecutionOptions.SHUTDOWN_ON_ATTACHED_EXIT),
        shows_profile=get(RuntimeOptions.PROFILE),
        warnings=configuration.warnings(),
    )


def absolute(location: str) -> str:
    """Makes a path absolute, so that the JobManager understands it; URIs stay."""
    return location if _SCHEME.match(location) else str(Path(location).expanduser().absolute())


def _of_the_job(configuration: Configuration) -> dict[str, str]:
    """Returns the configuration that goes with the job: absolute directories, and no credentials of processes."""
    texts = configuration.only(may_travel).to_strings()
    for option in _DIRECTORIES:
        if texts.get(option.key):
            texts[option.key] = absolute(texts[option.key])
    return texts
