"""The warm cluster as a program sees it: found, borrowed, and given back at the program's end."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from tidegate.aio.homes import home_of
from tidegate.cli.cluster_files import clusters_of
from tidegate.cli.embedded.local_cluster import FORCED_TO_LOOPBACK
from tidegate.cli.embedded.own_files import sweep_embedded, tell_left_by_others
from tidegate.cli.embedded.warm.facts import Standing, Use, facts_now, why_not
from tidegate.cli.embedded.warm.meeting import ANSWER_LIMIT_S, Channel, is_met, meet, warm_directory
from tidegate.cli.embedded.warm.output import CopiedOutput
from tidegate.cli.options import load_configuration
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ErrorInfo, ExternalError, TidegateError, Unreachable
from tidegate.model.options import FileOptions, WarmClusterOptions
from tidegate.model.values import JsonObject

CI = "CI"
"""The environment variable of build servers: where it is set, no cluster is kept or found."""
CLOSE_LIMIT_S = 60.0
"""How long a program waits at its end until a cluster with jobs that it has left is closed, in seconds. Chosen, not measured."""
_STANDARD = (1, 2)
"""Standard output and error, by POSIX."""


class WarmCluster:
    """A borrowed cluster. It has what ``LocalCluster`` has; ``close`` gives it back."""

    def __init__(self, channel: Channel, lent: JsonObject, definitions: Sequence[str]) -> None:
        self.configuration = load_configuration(None, [*definitions, *FORCED_TO_LOOPBACK])
        self.address = str(lent["address"])
        self.slots = int(lent["slots"])
        self._channel = channel
        self._pipes = tuple(channel.descriptors)
        self._output = CopiedOutput(self._pipes, _STANDARD)
        self._is_closed = False

    def is_alive(self) -> bool:
        """Tells whether the cluster takes jobs."""
        try:
            return bool(self._channel.ask({"what": "is-alive"}, ANSWER_LIMIT_S).get("alive"))
        except Unreachable:
            return False

    def add_slots(self, slots: int) -> None:
        """Has a TaskManager with this many slots started, none for 0. Raises the error that keeps it from starting, or ``Unreachable``."""
        if slots > 0:
            limit_s = self.configuration.get(FileOptions.START_TIMEOUT) / 1000 + ANSWER_LIMIT_S
            answer = self._channel.ask({"what": "add-slots", "slots": slots}, limit_s)
            if "error" in answer:
                raise ErrorInfo(**answer["error"]).to_exception()
            self.slots = int(answer["slots"])

    def settle(self) -> None:
        """Returns when what jobs have printed until now is on the terminal."""
        self._output.settle()

    def close(self) -> list[Path]:
        """Gives the cluster back: with jobs that still run it is closed, and the keeper starts another one. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            try:
                self._channel.ask({"what": "give-back"}, CLOSE_LIMIT_S)
            except Unreachable as error:
                click.echo(f"warning: {error.message}", err=True)
            self._output.close()
            for pipe in self._pipes:
                os.close(pipe)
            self._channel.close()
        return []


def borrow(settings: Mapping[str, str], definitions: Sequence[str]) -> WarmCluster | None:
    """Returns the warm cluster of this user, or ``None`` when there is none, or when the program needs another; prints which.

    ``settings``: all options of the processes of a cluster that the program would start, ``definitions`` those that are not read from its environment.
    """
    configuration = load_configuration(None, definitions)
    directory = place_of(configuration)
    if directory is None:
        return None
    try:
        channel, standing = meet(directory)
    except ExternalError as error:
        _tell(f"The warm cluster is not used: {error.message}. `tidegate cluster keep` starts one.")
        return None
    reason = why_not(standing, facts_now(settings))
    hint = " `tidegate cluster keep` makes it fit." if reason and standing.use is Use.FREE else ""
    found = reason or _borrowed(channel, definitions)
    if isinstance(found, str):
        for descriptor in channel.descriptors:
            os.close(descriptor)
        channel.close()
        _tell(f"The warm cluster (pid {standing.pid}) is not used: {found}.{hint}")
        return None
    _tell(f"Runs on the warm cluster (pid {standing.pid}); `tidegate cluster keep --stop` ends it.")
    tell_left_by_others(sweep_embedded(clusters_of(home_of(configuration))))
    return found


def place_of(configuration: Configuration) -> Path | None:
    """Returns the directory of the warm cluster that a program of this configuration asks for; ``None`` when it asks for none."""
    if os.environ.get(CI) or not configuration.get(WarmClusterOptions.ENABLED):
        return None
    directory = warm_directory(home_of(configuration))
    return directory if is_met(directory) else None


def standing_of(directory: Path) -> Standing | None:
    """Returns what the keeper of a directory says of itself; ``None`` without one that answers."""
    if not is_met(directory):
        return None
    try:
        channel, standing = meet(directory)
    except TidegateError:
        return None
    channel.close()
    return standing


def _borrowed(channel: Channel, definitions: Sequence[str]) -> WarmCluster | str:
    """Returns the borrowed cluster, or why it is not lent."""
    try:
        lent = channel.ask({"what": "borrow", "pid": os.getpid()}, ANSWER_LIMIT_S)
    except Unreachable as error:
        return error.message
    if not lent.get("lent"):
        return str(lent.get("why", "it answers with an error"))
    if len(channel.descriptors) != len(_STANDARD):
        return "the pipes into which its jobs print did not arrive"
    tell_left_by_others([Path(path) for path in lent["left"]])
    return WarmCluster(channel, lent, definitions)


def _tell(text: str) -> None:
    click.echo(text, err=True)
