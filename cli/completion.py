"""Shell completion for bash, zsh and fish: commands, options, keys of `-D`, ids of jobs, and paths of savepoints.

    tidegate completion install ─▶ a script that the shell loads ─▶ Tab ─▶ `tidegate` with _TIDEGATE_COMPLETE ─▶ words

Completion must be fast and must not write on the terminal: a cluster that does not answer in ``_PATIENCE_S`` counts as one without jobs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")
_PATIENCE_S = 2.0
"""How long to wait for the cluster, in seconds. Chosen, not measured: a person waits so long for a completion."""
_VARIABLE = "_TIDEGATE_COMPLETE"
_LATEST = 20
"""How many savepoints and checkpoints are offered: a screen of them. Chosen."""


def jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the ids of jobs with this prefix, each with its name and state."""
    from tidegate.cli.options import address_definitions, client_of, load_configuration
    from tidegate.model.errors import TidegateError

    try:
        job_manager = ctx.params.get("job_manager")
        definitions = [*(ctx.params.get("definitions") or ()), *address_definitions(job_manager)]
        with client_of(load_configuration(ctx.params.get("config"), definitions), job_manager) as client:
            found = client.list_jobs(include_terminal=True, timeout_s=_PATIENCE_S)
    except TidegateError:
        return []
    return [
        CompletionItem(job.job_id, help=f"{job.name} ({job.state})")
        for job in sorted(found, key=lambda job: -job.start_ms)
        if job.job_id.startswith(incomplete)
    ]


def snapshots(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the paths of savepoints and checkpoints with this prefix, newest first.

    They are searched below the configured directories and in clusters of this machine; if none matches, the shell completes file names.
    """
    from tidegate.aio.homes import home_of
    from tidegate.cli.cluster_files import CHECKPOINTS, clusters_of
    from tidegate.cli.options import load_configuration
    from tidegate.model.errors import TidegateError
    from tidegate.model.options import CheckpointingOptions

    try:
        configuration = load_configuration(ctx.params.get("config"), ctx.params.get("definitions") or ())
    except TidegateError:
        return [CompletionItem(incomplete, type="dir")]
    options = CheckpointingOptions
    configured = [configuration.get(options.SAVEPOINT_DIRECTORY), configuration.get(options.DIRECTORY)]
    places = [Path(place.removeprefix("file://")) for place in configured if place]
    places += [path / CHECKPOINTS for path in clusters_of(home_of(configuration)).glob("*")]
    found = [path for path in newest(places) if path.startswith(incomplete)]
    return [CompletionItem(path) for path in found] or [CompletionItem(incomplete, type="dir")]


def newest(places: Iterable[Path]) -> list[str]:
    """Returns the directories of complete savepoints and checkpoints directly below these directories or one level deeper, newest first."""
    found = {path.parent: path.stat().st_mtime for place in places for path in _metadata_in(place)}
    return [str(path) for path in sorted(found, key=lambda path: -found[path])][:_LATEST]


def _metadata_in(place: Path) -> Iterator[Path]:
    from tidegate.wire.manifest import METADATA_FILE

    for pattern in (f"*/{METADATA_FILE}", f"*/*/{METADATA_FILE}"):
        yield from place.glob(pattern)


def script(shell: str, command: click.Command) -> str:
    """Returns the script that makes the shell complete `tidegate`."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    text = made(command, {}, "tidegate", _VARIABLE).source()
    if shell == "bash":  # the value stands right behind `KEY=`
        text = text.replace("COMPREPLY+=($value)", "COMPREPLY+=($value); [[ $value == *= ]] && compopt -o nospace")
    return text


def install(shell: str, command: click.Command, home: Path) -> list[Path]:
    """Writes the script, and for bash and zsh the line that loads it, once. Returns the written files. Raises ``OSError``."""
    place = _place_of(shell, home)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(script(shell, command), encoding="utf-8")
    started = {"bash": home / ".bashrc", "zsh": home / ".zshrc"}.get(shell)
    if started is None:
        return [place]
    before = started.read_text(encoding="utf-8") if started.exists() else ""
    if str(place) in before:
        return [place]
    compinit = "autoload -Uz compinit && compinit; " if shell == "zsh" else ""
    with started.open("a", encoding="utf-8") as file:
        file.write(f"\n{compinit}. '{place}'  # completion of tidegate\n")
    return [place, started]


def shell_of_user() -> str | None:
    """Returns the user's login shell by the variable SHELL; ``None`` if it is not one of ``SHELLS``."""
    name = Path(os.environ.get("SHELL", "")).name
    return name if name in SHELLS else None


def _place_of(shell: str, home: Path) -> Path:
    if shell == "fish":
        return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish" / "completions" / "tidegate.fish"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "tidegate" / f"completion.{shell}"
