"""`tidegate`: the command line. Commands import what they need when they run, so that `--help` is quick."""

from __future__ import annotations

import click

from tidegate.cli.commands.application import run_application
from tidegate.cli.commands.autoscale import autoscale
from tidegate.cli.commands.cluster import cluster
from tidegate.cli.commands.completion import completion
from tidegate.cli.commands.fault import fault
from tidegate.cli.commands.ha import ha
from tidegate.cli.commands.jobs import cancel, checkpoints, list_jobs
from tidegate.cli.commands.new import new
from tidegate.cli.commands.package import package
from tidegate.cli.commands.processes import historyserver, jobmanager, taskmanager
from tidegate.cli.commands.replay import replay
from tidegate.cli.commands.rescale import rescale
from tidegate.cli.commands.run import info, run
from tidegate.cli.commands.security import security
from tidegate.cli.commands.snapshots import checkpoint, savepoint, stop
from tidegate.cli.commands.sql import sql
from tidegate.cli.commands.state import state
from tidegate.cli.commands.state_get import get_state
from tidegate.cli.commands.txn import txn
from tidegate.cli.commands.upgrade import upgrade
from tidegate.wire.versions import PYTHON_VERSION, VERSION

SECTIONS = {
    "Jobs": (
        "new",
        "run",
        "run-application",
        "sql",
        "info",
        "list",
        "cancel",
        "stop",
        "rescale",
        "autoscale",
        "upgrade",
    ),
    "Checkpoints and state": ("savepoint", "checkpoint", "checkpoints", "state", "txn"),
    "Clusters": ("cluster", "jobmanager", "taskmanager", "historyserver", "ha", "security", "package"),
    "Tools": ("replay", "fault", "completion"),
}
"""The commands in the order in which `tidegate --help` shows them."""


class _Main(click.Group):
    """The group of all commands, shown in sections."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                limit = formatter.width - longest - 6
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit)) for name in names])


@click.group(cls=_Main, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(VERSION, message=f"tidegate %(version)s on Python {PYTHON_VERSION}")
def main() -> None:
    """Run streaming jobs with exactly-once checkpoints: a JobManager, TaskManagers with slots, and jobs."""


state.add_command(get_state)
for command in (
    new,
    run,
    run_application,
    sql,
    info,
    list_jobs,
    cancel,
    stop,
    rescale,
    autoscale,
    upgrade,
    savepoint,
    checkpoint,
    checkpoints,
    state,
    txn,
    cluster,
    ha,
    replay,
    fault,
    package,
    security,
    completion,
    jobmanager,
    taskmanager,
    historyserver,
):
    main.add_command(command)

if __name__ == "__main__":
    main(prog_name="tidegate")
