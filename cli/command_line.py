"""Parses options as Flink's command line does, where click alone would parse them differently.

    tidegate run -p 3 --fromSavepoint /s job.py --input x
                 └──── options ────────┘ └─ the program and its own arguments

Flink's command line also takes a long option after one dash (`-parallelism 3`), and spells it in one word (`--allowNonRestoredState`); so do these
commands. A word before the program that begins with a dash must be an option of the command: Flink takes `--paralellism` for the name of a file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_CAPITAL = re.compile("[A-Z]")
_WORD = re.compile("-[A-Za-z][A-Za-z-]{3,}")
"""A long option after one dash; shorter ones are letters, followed by a value."""
_CLOSE = 0.8
"""The least ratio of difflib, from 0 to 1, for a suggestion: one wrong or missing letter in a word of five. Chosen."""
_JOB_ID = re.compile("[0-9a-fA-F]{32}")

_PYTHON, _GENERAL = "Python", "Cluster and configuration"
_GENERAL_OPTIONS = {"--jobmanager", "--config", "-D", "--verbose", "--help"}
OF_JAVA = {
    ("-c", "--class"): "names the main class of a Java program, and programs of tidegate are in Python: give a job file, or a module with -pym",
    ("-C", "--classpath"): "adds JARs to a Java program, and programs of tidegate are in Python: files that functions import are given with -pyfs",
    ("-j", "--jarfile"): "gives the JAR with the classes of a savepoint; none are needed here, leave it out",
    ("-pyclientexec", "--pyClientExecutable"): "names the Python that runs the program; that is the one of `tidegate` itself: start tidegate with it",
    ("-z", "--zookeeperNamespace"): "names the cluster in ZooKeeper; set it with -D high-availability.cluster-id=NAME",
    ("-yid", "--yarnapplicationId"): "names a session of YARN; give the address of its JobManager with -m",
}  # fmt: skip
"""Options of Flink 2.3's command line (`flink run --help` and so on) that mean nothing here, each with what to do instead."""


class JobIdType(click.types.StringParamType):
    """A parameter type for job ids: 32 hexadecimal digits. Anything else is refused with Flink's message before the command does anything."""

    name = "job id"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if _JOB_ID.fullmatch(value) is None:
            self.fail(
                f'Cannot parse JobID from "{value}". The expected format is [0-9a-fA-F]{{32}}, e.g. fd72014d4c864993a2e5a9287b4a9c5d; '
                "`tidegate list -a` shows the ids of jobs.",
                param,
                ctx,
            )
        return value.lower()

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from tidegate.cli.completion import jobs

        return jobs(ctx, param, incomplete)


class SnapshotPathType(click.types.StringParamType):
    """A parameter type for the path of a savepoint or checkpoint, local or a URI."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from tidegate.cli.completion import snapshots

        return snapshots(ctx, param, incomplete)


JOB_ID = JobIdType()
SNAPSHOT = SnapshotPathType()


class FlinkCommand(click.Command):
    """A command that takes options as Flink's command line does."""

    names_program: frozenset[str] = frozenset()
    """Options that name the program: after one of them, an option that the command does not have is the program's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        takes_value = {
            name: not (option.is_flag or option.count or isinstance(option.flag_value, str))
            for option in self.get_params(ctx)
            if isinstance(option, click.Option)
            for name in (*option.opts, *option.secondary_opts)
        }
        try:
            args = respelled(args, takes_value, self.names_program, is_mixed=ctx.allow_interspersed_args)
        except click.UsageError:
            if not ctx.resilient_parsing:  # as click itself completes what is not right yet
                raise
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options in groups: those of the command, those for Python programs, and those that all commands have."""
        groups: dict[str, list[tuple[str, str]]] = {"Options": [], _PYTHON: [], _GENERAL: []}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None:
                groups[_group_of(option)].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class ProgramCommand(FlinkCommand):
    """A command with the file of a program among its arguments; all words after it are the program's own."""

    allow_interspersed_args = False
    names_program = frozenset({"-py", "--python", "-pym", "--pyModule", "--job"})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        after_the_first = [one for one in self.get_params(ctx) if isinstance(one, click.Argument) and one.nargs == 1][
            1:
        ]
        for argument in after_the_first if "--" not in args and not ctx.resilient_parsing else ():
            found = str(ctx.params.get(argument.name or "") or "")
            if found.startswith("-"):
                raise click.UsageError(
                    f"{found} stands where {argument.make_metavar(ctx)} is expected: options stand before the first argument.",
                    ctx,
                )
        return rest


def _group_of(option: click.Parameter) -> str:
    if option.opts[0].startswith("-py"):
        return _PYTHON
    return _GENERAL if _GENERAL_OPTIONS.intersection(option.opts) else "Options"


def respelled(
    args: Sequence[str], takes_value: Mapping[str, bool], names_program: Collection[str] = (), *, is_mixed: bool = True
) -> list[str]:
    """Returns the words with each option spelled as it is declared, and `--` before the program's own options.

    ``takes_value``: the declared options, and whether the next word is the value of one. ``is_mixed``: options may follow arguments.
    Raises ``click.UsageError`` for an unknown option, with the nearest.
    """
    words: list[str] = []
    is_named = False
    at = 0
    while at < len(args) and args[at] != "--":
        word = args[at]
        if not word.startswith("-") or word == "-":
            if not is_mixed:
                break
            words.append(word)
            at += 1
            continue
        found = _declared(word, takes_value)
        if found is None:
            if is_named:
                return [*words, "--", *args[at:]]
            raise _unknown(word.partition("=")[0], takes_value)
        end = at + (2 if _needs_next(found, takes_value) else 1)
        words += [found, *args[at + 1 : end]]
        is_named = is_named or found.partition("=")[0] in names_program
        at = end
    return [*words, *args[at:]]


def _declared(word: str, takes_value: Mapping[str, bool]) -> str | None:
    """Returns an option as it is declared, with its value if it has one after `=`; ``None`` when there is none like it."""
    name, equals, value = word.partition("=")
    kebab = _CAPITAL.sub(lambda found: f"-{found[0].lower()}", name)
    for spelled in (name, kebab, f"-{name}", f"-{kebab}"):
        if spelled in takes_value and (spelled == name or spelled.startswith("--")):
            return f"{spelled}{equals}{value}"
    if name.startswith("--") or any(name in names for names in OF_JAVA):
        return None
    if takes_value.get(word[:2], False):
        return None if _WORD.fullmatch(name) and _nearest(name, takes_value, _CLOSE) else word  # as -p3
    return word if all(f"-{letter}" in takes_value for letter in word[1:]) else None  # as -dn


def _needs_next(option: str, takes_value: Mapping[str, bool]) -> bool:
    """Tells whether the value of a declared option is the next word."""
    if option in takes_value:
        return takes_value[option]
    is_letters = not option.startswith("--") and "=" not in option and not takes_value.get(option[:2], False)
    return is_letters and takes_value[f"-{option[-1]}"]


def _nearest(name: str, takes_value: Mapping[str, bool], cutoff: float) -> list[str]:
    longs = [one for one in takes_value if one.startswith("--")]
    return difflib.get_close_matches("--" + name.lstrip("-"), longs, cutoff=cutoff)


def _unknown(name: str, takes_value: Mapping[str, bool]) -> click.UsageError:
    for names, why in OF_JAVA.items():
        if name in names:
            return click.UsageError(f"{name} {why}.")
    return click.NoSuchOption(name, possibilities=_nearest(name, takes_value, 0.6))
