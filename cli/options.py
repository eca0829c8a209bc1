"""Options that several commands share, and the configuration that follows from them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tidegate.model.errors import Misuse, Unreachable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tidegate.cli.client import JobManagerClient
    from tidegate.model.configuration import Configuration

RPC_ADDRESS = "jobmanager.rpc.address"
RPC_PORT = "jobmanager.rpc.port"

Command = TypeVar("Command", bound="Callable[..., object] | click.Command")
"""What an option is added to; decorators return the same type."""


def configuration_options(command: Command) -> Command:
    """Adds `--config` and `-D`: the parameters `config` and `definitions`."""
    command = click.option(
        "-D",
        "definitions",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set one option; may be repeated.",
        callback=_with_handed_over,
        shell_complete=_keys,
    )(command)
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Configuration file (YAML); default: $TIDEGATE_CONFIG, or config.yaml in $TIDEGATE_CONF_DIR.",
    )(command)


def _keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the option keys with this prefix, each with `=`."""
    from click.shell_completion import CompletionItem

    from tidegate.model.options import declared

    return [CompletionItem(f"{key}=") for key in sorted(declared()) if key.startswith(incomplete)]


def _with_handed_over(
    context: click.Context, parameter: click.Parameter, definitions: tuple[str, ...]
) -> tuple[str, ...]:
    """Returns the definitions of the parent process followed by those of the command line; warns about secrets in the latter."""
    from tidegate.aio.settings import handed_over, variable_of
    from tidegate.model.masking import is_sensitive

    for definition in definitions:
        key = definition.partition("=")[0].strip()
        if is_sensitive(key):
            click.echo(
                f"warning: other users of this machine can read the value of {key} in the command line; put it into config.yaml, "
                f"which you alone can read, or into the variable {variable_of(key)}",
                err=True,
            )
    return (*handed_over(), *definitions)


def job_manager_option(command: Command) -> Command:
    """Adds `--jobmanager`: the parameter `job_manager`."""
    return click.option(
        "-m",
        "--jobmanager",
        "job_manager",
        metavar="HOST:PORT",
        help="Address of the JobManager; default: as configured, localhost:6123.",
    )(command)


def timeout_option(default_s: float, text: str, least: click.FloatRange) -> Callable[[Command], Command]:
    """Adds `--timeout`: the parameter `timeout_s`."""
    return click.option(
        "--timeout", "timeout_s", type=least, default=default_s, show_default=True, metavar="SECONDS", help=text
    )


Options = TypeVar("Options")


def taking(kind: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Passes the parsed parameters to the command as one value of ``kind``, a dataclass with fields of the same names."""

    def gathering(command: Callable[[Options], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def gathered(**parameters: Any) -> None:
            command(kind(**parameters))

        return gathered

    return gathering


def load_configuration(config: Path | None, definitions: Sequence[str], *forced: str) -> Configuration:
    """Loads the configuration of this command. `forced`: definitions that follow from other options. Raises `ConfigurationError`."""
    from tidegate.aio.settings import load_settings

    return load_settings(config, [*definitions, *forced])


def address_definitions(job_manager: str | None) -> list[str]:
    """Converts the value of `--jobmanager` to settings (`KEY=VALUE`). Raises `Misuse` for a text that is not an address."""
    if job_manager is None:
        return []
    host, colon, port = job_manager.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise Misuse(f"--jobmanager {job_manager!r} is not host:port, such as localhost:6123")
    return [f"{RPC_ADDRESS}={host}", f"{RPC_PORT}={port}"]


def leader_definitions(job_manager: str | None) -> list[str]:
    """Converts the value of `--jobmanager` to settings for a process that would otherwise look up the leader in the cluster's store."""
    from tidegate.model.options import HighAvailabilityOptions, HighAvailabilityType

    if job_manager is None:
        return []
    return [
        *address_definitions(job_manager),
        f"{HighAvailabilityOptions.TYPE.key}={HighAvailabilityType.NONE.value}",
    ]


def address_of(configuration: Configuration, job_manager: str | None) -> str:
    """Returns the address of the JobManager: that of ``--jobmanager``, or else the leader that ZooKeeper or the bucket names.

    Raises ``Unreachable`` while there is no leader.
    """
    from tidegate.high_availability.drivers import looks_up_leader
    from tidegate.model.options import JobManagerOptions

    if job_manager is None and looks_up_leader(configuration):
        return _leader_of(configuration)
    return f"{configuration.get(JobManagerOptions.RPC_ADDRESS)}:{configuration.get(JobManagerOptions.RPC_PORT)}"


def client_of(configuration: Configuration, job_manager: str | None) -> JobManagerClient:
    """Returns a client of the leading JobManager, which goes on with the next one. Raises ``Unreachable`` while there is none."""
    from tidegate.aio.admission import call_metadata
    from tidegate.aio.https import rest_scheme
    from tidegate.aio.signing import signing_of
    from tidegate.aio.transports import transport_of
    from tidegate.cli.client import JobManagerClient
    from tidegate.high_availability.drivers import looks_up_leader

    address = address_of(configuration, job_manager)
    asks = job_manager is None and looks_up_leader(configuration)
    find_leader = (lambda: _leader_of(configuration)) if asks else None
    return JobManagerClient(
        address,
        find_leader,
        transport_of(configuration),
        call_metadata(configuration),
        signing_of(configuration),
        rest_scheme(configuration),
    )


def client_at(configuration: Configuration, address: str) -> JobManagerClient:
    """Returns a client of the JobManager at an address, with the transport of the configuration."""
    from tidegate.aio.admission import call_metadata
    from tidegate.aio.https import rest_scheme
    from tidegate.aio.signing import signing_of
    from tidegate.aio.transports import transport_of
    from tidegate.cli.client import JobManagerClient

    return JobManagerClient(
        address,
        transport=transport_of(configuration),
        metadata=call_metadata(configuration),
        signing=signing_of(configuration),
        rest_scheme=rest_scheme(configuration),
    )


def _leader_of(configuration: Configuration) -> str:
    from tidegate.high_availability.drivers import make_retrieval

    retrieval = make_retrieval(configuration)
    try:
        leader = retrieval.leader()
    finally:
        retrieval.close()
    if leader is None:
        raise Unreachable("no JobManager leads this cluster just now; start one, or try again in some seconds")
    return leader.contact.rpc
