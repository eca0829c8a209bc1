"""`tidegate cluster keep`: keeps an embedded cluster for the programs of this user, so that the next one does not wait for its start."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.errors import reporting
from tidegate.cli.options import configuration_options, load_configuration
from tidegate.model.errors import ExternalError, Misuse

if TYPE_CHECKING:
    from tidegate.cli.embedded.warm.facts import Standing
    from tidegate.model.configuration import Configuration

NAME = "warm cluster"


@click.command()
@click.option(
    "--idle-timeout",
    metavar="DURATION",
    help="End it after so long without a program; default: 30 min (tidegate.warm-cluster.idle-timeout).",
)
@click.option(
    "--slots",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Slots; default: one for each processor. A program that needs more gets more.",
)
@click.option("--stop", is_flag=True, help="End the cluster that is kept, and keep none.")
@click.option("--ready-fd", type=int, hidden=True)
@configuration_options
@reporting
def keep(
    idle_timeout: str | None,
    slots: int | None,
    stop: bool,
    ready_fd: int | None,
    config: Path | None,
    definitions: tuple[str, ...],
) -> None:
    """Keep a cluster for programs that start their own: the next `python job.py` of this user runs on it, and does not
    wait for its start. It is lent to one program at a time, which has to have the same environment; `tidegate cluster stop`
    leaves it alone."""
    from tidegate.aio.homes import home_of
    from tidegate.cli.embedded.warm.meeting import warm_directory
    from tidegate.model.options import WarmClusterOptions

    limit = WarmClusterOptions.IDLE_TIMEOUT
    own = [f"{limit.key}={idle_timeout}"] if idle_timeout is not None else []
    configuration = load_configuration(config, definitions, *own)
    directory = warm_directory(home_of(configuration))
    number = slots or os.cpu_count() or 1
    if ready_fd is not None:
        _serve(configuration, directory, number, ready_fd)
    elif stop:
        _stop(directory)
    else:
        _keep(configuration, directory, number)


def _keep(configuration: Configuration, directory: Path, slots: int) -> None:
    """Starts the keeper, or finds that one is there which fits; one that does not is replaced unless a program runs on it."""
    from tidegate.cli.embedded.children import Child, end_processes
    from tidegate.cli.embedded.own_files import sweep_embedded, tell_left_by_others
    from tidegate.cli.embedded.warm.borrowed import CI, standing_of
    from tidegate.cli.embedded.warm.facts import Standing, differences, facts_now
    from tidegate.model.options import FileOptions, WarmClusterOptions

    if os.environ.get(CI):
        raise Misuse(
            f"the variable {CI} is set: on build servers each program starts a cluster of its own, and none is kept"
        )
    limit_ms = configuration.get(WarmClusterOptions.IDLE_TIMEOUT)
    settings = configuration.to_strings()
    found = standing_of(directory)
    if found is not None:
        changed = list(differences(found.facts, facts_now(settings)))
        if not changed and found.slots >= slots and found.idle_timeout_ms == limit_ms:
            click.echo(f"A warm cluster is kept already: {described(found)}")
            return
        if found.holder:
            raise Misuse(
                f"the warm cluster (pid {found.pid}) cannot be replaced: a program (pid {found.holder}) runs on it; "
                "wait for its end, or end it by `tidegate cluster keep --stop`"
            )
        _end(found)
        click.echo(f"The warm cluster of before (pid {found.pid}) is replaced.")
    _make(directory)
    tell_left_by_others(sweep_embedded(directory.parent))
    log = directory / "keeper.log"
    arguments = ["cluster", "keep", "--slots", str(slots)]
    child = Child(NAME, arguments, directory / "output.log", log, definitions=[f"{k}={v}" for k, v in settings.items()])
    try:
        ready = child.wait_ready(
            2 * configuration.get(FileOptions.START_TIMEOUT) / 1000, lambda text: click.echo(text, err=True)
        )
    except BaseException:
        end_processes([child.pid])
        raise
    click.echo(f"A warm cluster is kept: {described(Standing.from_json(ready))}")
    click.echo(f"Logs: {directory}")


def _serve(configuration: Configuration, directory: Path, slots: int, ready_fd: int) -> None:
    """Is the keeper, until its end."""
    from tidegate.aio.logs import set_up_logging
    from tidegate.aio.rolling import Rolling
    from tidegate.cli.embedded.children import StartReport
    from tidegate.cli.embedded.warm.facts import OF_KEEPING, facts_now
    from tidegate.cli.embedded.warm.keeper import Keeper
    from tidegate.model.options import FileOptions, WarmClusterOptions

    report = StartReport(ready_fd)
    try:
        settings = configuration.to_strings()
        set_up_logging(
            configuration.get(FileOptions.LOG_LEVEL).value,
            directory / "keeper.log",
            None,
            rolling=Rolling.of(configuration),
        )
        facts = facts_now(settings)
        report.step("starting its JobManager and TaskManager")
        os.chdir(directory)  # else it would hold the folder from which it was started
        limit_ms = configuration.get(WarmClusterOptions.IDLE_TIMEOUT)
        own = {key: text for key, text in settings.items() if key not in OF_KEEPING}
        Keeper(directory, own, slots, limit_ms, facts).run(report.ready)
    except BaseException as error:
        if not report.failure(error):  # it was up before
            logging.getLogger(__name__).exception("the warm cluster ends")
        raise


def _stop(directory: Path) -> None:
    from tidegate.cli.embedded.warm.borrowed import standing_of

    found = standing_of(directory)
    if found is None:
        click.echo(f"No warm cluster is kept in {directory}.")
        return
    _end(found)
    click.echo(f"Stopped the warm cluster (pid {found.pid}).")


def described(standing: Standing) -> str:
    """Describes a warm cluster in a sentence or two."""
    from tidegate.cli.tables import counted
    from tidegate.model.units import format_duration_ms

    at_work = f", lent to a program (pid {standing.holder})" if standing.holder else ""
    starting = f", {standing.use.value}" if not standing.slots else ""
    return (
        f"pid {standing.pid}, {counted(standing.slots, 'slot')}{starting}{at_work}. The next `python job.py` with this environment runs on it; it ends after "
        f"{format_duration_ms(standing.idle_timeout_ms)} without one, or by `tidegate cluster keep --stop`."
    )


def warm_line(configuration: Configuration) -> str:
    """Returns a line about the warm cluster of a configuration, for the other commands about clusters; empty without one."""
    from tidegate.aio.homes import home_of
    from tidegate.cli.embedded.warm.borrowed import standing_of
    from tidegate.cli.embedded.warm.meeting import warm_directory

    found = standing_of(warm_directory(home_of(configuration)))
    return "" if found is None else f"A warm cluster is kept for programs: {described(found)}"


def _make(directory: Path) -> None:
    from tidegate.aio.homes import own_only

    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        own_only(directory)
    except OSError as error:
        raise ExternalError(
            f"cannot make {directory}: {error.strerror}; set tidegate.home to another directory"
        ) from None


def _end(standing: Standing) -> None:
    """Ends a keeper and its cluster; returns when they are gone."""
    from tidegate.cli.embedded.children import END_TIMEOUT_S, end_processes

    # Its own orderly end takes as long as that of its children, which it ends first.
    end_processes([standing.pid], 2 * END_TIMEOUT_S)
