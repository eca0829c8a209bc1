"""`tidegate autoscale`: Flink's autoscaler, as a process next to the cluster."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.errors import reporting
from tidegate.cli.options import (
    address_definitions,
    address_of,
    client_of,
    configuration_options,
    job_manager_option,
    load_configuration,
)

if TYPE_CHECKING:
    from types import FrameType

    from tidegate.model.configuration import Configuration

_PATH = click.Path(path_type=Path)


@click.command()
@click.option("--log-file", type=_PATH, help="Log into this file instead of the terminal.")
@job_manager_option
@configuration_options
@reporting
def autoscale(
    log_file: Path | None, job_manager: str | None, config: Path | None, definitions: tuple[str, ...]
) -> None:
    """Change the parallelism of running jobs by their load, until Ctrl-C or SIGTERM: of those that set job.autoscaler.enabled, or of all with
    -Djob.autoscaler.enabled=true here."""
    from tidegate.aio.logs import set_up_logging
    from tidegate.autoscaler.service.loop import Autoscaler
    from tidegate.model.options import FileOptions

    configuration = load_configuration(config, [*definitions, *address_definitions(job_manager)])
    stream = None if log_file else sys.stderr
    set_up_logging(configuration.get(FileOptions.LOG_LEVEL).value, log_file, stream)
    autoscaler = Autoscaler(configuration, lambda: _rest_address(configuration, job_manager))
    ending = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ending.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    autoscaler.run(lambda seconds: ending.wait(seconds))


def _rest_address(configuration: Configuration, job_manager: str | None) -> str:
    """Returns the configured REST address, or else that of the leading JobManager. Raises `Unreachable`."""
    from tidegate.aio.https import rest_url
    from tidegate.model.options import AutoscalerStandaloneOptions

    host, port = (
        configuration.get(AutoscalerStandaloneOptions.HOST),
        configuration.get(AutoscalerStandaloneOptions.PORT),
    )
    if host is None:
        host = address_of(configuration, job_manager).rpartition(":")[0]
    if port is None:
        with client_of(configuration, job_manager) as client:
            port = client.cluster().rest_port
    return rest_url(configuration, host, port)
