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
    from tidegate.model.values import JsonObject

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
        _end(found.pid)
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
    from tidegate.cli.embedded.warm.meeting import keeper_of

    found = standing_of(directory)
    pid = keeper_of(directory) if found is None else found.pid
    if not pid:
        click.echo(f"No warm cluster is kept in {directory}.")
        return
    _end(pid)
    click.echo(f"Stopped the warm cluster (pid {pid}).")


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


def found_in(configuration: Configuration) -> Standing | int:
    """Returns what the keeper of a configuration's warm cluster says of itself, the pid of one that does not answer, or 0 without one."""
    from tidegate.aio.homes import home_of
    from tidegate.cli.embedded.warm.borrowed import standing_of
    from tidegate.cli.embedded.warm.meeting import keeper_of, warm_directory

    directory = warm_directory(home_of(configuration))
    return standing_of(directory) or keeper_of(directory)


def warm_line(found: Standing | int) -> str:
    """Returns a line about the warm cluster, for the other commands about clusters; empty without one."""
    from tidegate.cli.tables import moment

    if isinstance(found, int):
        silent = "is starting or ending, or stands still; `tidegate cluster keep --stop` ends it"
        return f"A warm cluster (pid {found}) does not answer: it {silent}." if found else ""
    times = f"It is kept for {own_user()} since {moment(found.started_ms)}"
    if found.holder:
        times += f"; the program has it since {moment(found.since_ms)}"
    elif found.ends_ms is not None:
        times += f", and ends at {moment(found.ends_ms)} if no program comes"
    return f"A warm cluster is kept for programs: {described(found)} {times}."


def warm_as_json(found: Standing | int) -> JsonObject | None:
    """Returns the warm cluster for `--json`; ``None`` without one. One that does not answer has the state `silent`, and nothing else that is known."""
    if isinstance(found, int):
        unknown = dict.fromkeys(("since", "program", "program-since", "slots", "idle-timeout", "ends"))
        return {"pid": found, "user": own_user(), "state": "silent", **unknown} if found else None
    return {
        "pid": found.pid,
        "user": own_user(),
        "state": found.use.value,
        "since": found.started_ms,
        "program": found.holder or None,
        "program-since": found.since_ms if found.holder else None,
        "slots": found.slots,
        "idle-timeout": found.idle_timeout_ms,
        "ends": found.ends_ms,
    }


def own_user() -> str:
    """Returns the name of the user whose warm cluster is looked at, which is always the own one; its number where it has no name."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _make(directory: Path) -> None:
    from tidegate.aio.homes import own_only

    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        own_only(directory)
    except OSError as error:
        raise ExternalError(
            f"cannot make {directory}: {error.strerror}; set tidegate.home to another directory"
        ) from None


def _end(pid: int) -> None:
    """Ends a keeper and its cluster; returns when they are gone."""
    from tidegate.cli.embedded.children import END_TIMEOUT_S, end_processes

    # Its own orderly end takes as long as that of its children, which it ends first.
    end_processes([pid], 2 * END_TIMEOUT_S)
