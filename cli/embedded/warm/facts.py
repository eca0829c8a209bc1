"""Decides whether a program may run on the warm cluster: only if a cluster that it starts itself would be the same. Pure, except for ``facts_now``."""

from __future__ import annotations

import hashlib
import os
import re
import site
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

import tidegate
from tidegate.aio.settings import HANDED_VARIABLE
from tidegate.model.errors import ExternalError
from tidegate.model.options import WarmClusterOptions, options_of
from tidegate.model.values import JsonObject
from tidegate.wire.versions import VERSION

SHOWN = 5
"""How many names of variables or options a reason shows. Chosen, not measured."""
_OF_TERMINALS = re.compile(
    r"_|PWD|OLDPWD|SHLVL|TERM|TERM_.*|COLORTERM|COLORFGBG|COLUMNS|LINES|PS[0-4]|PROMPT.*|LS_COLORS|WINDOWID|GPG_TTY|VTE_VERSION|KONSOLE_.*|ITERM_.*"
    r"|TMUX.*|STY|WINDOW|SSH_TTY|SSH_CLIENT|SSH_CONNECTION|XDG_SESSION_ID|VSCODE_.*|JPY_.*|VIRTUAL_ENV_PROMPT|HISTCONTROL|HISTSIZE|LESS.*|PAGER|EDITOR|VISUAL"
)
"""Environment variables by which terminals, shells and editors differ, and on which no job depends."""
OF_KEEPING = frozenset(option.key for option in options_of(WarmClusterOptions))
"""Options that say whether and how long a cluster is kept, and nothing about it."""
_NUMBERS = ("pid", "holder", "slots", "idle_timeout_ms", "started_ms", "since_ms")


class Use(Enum):
    """What a warm cluster is doing."""

    STARTING = "starting"
    FREE = "free"
    LENT = "lent"
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class Facts:
    """What of a process decides how the cluster behaves that it starts. Values of variables and options are digests: no secret is passed on or shown."""

    version: str
    code: str
    interpreter: str
    packages: str
    umask: str
    environment: Mapping[str, str]
    settings: Mapping[str, str]

    def to_json(self) -> JsonObject:
        return asdict(self)

    @staticmethod
    def from_json(found: JsonObject) -> Facts:
        """Reads facts that another process sent. Raises ``ExternalError`` when they are those of another version's shape."""
        try:
            return Facts(**found)
        except TypeError:
            raise ExternalError("it is of another version of tidegate") from None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a keeper says of itself. ``holder``: the pid of the program that has borrowed the cluster, 0 without one. ``started_ms``: when the keeper
    was started, ``since_ms``: when the cluster was lent, or became free; both since the epoch."""

    pid: int
    use: Use
    holder: int
    slots: int
    idle_timeout_ms: int
    facts: Facts
    started_ms: int = 0
    since_ms: int = 0

    @property
    def ends_ms(self) -> int | None:
        """When it ends if no program comes, since the epoch; ``None`` unless it waits for one."""
        return self.since_ms + self.idle_timeout_ms if self.use is Use.FREE else None

    def why_not_free(self) -> str:
        """Returns why no program can borrow it now; empty when one can."""
        if self.use is Use.LENT:
            return f"it runs another program (pid {self.holder})"
        return "" if self.use is Use.FREE else f"it is {self.use.value}"

    def to_json(self) -> JsonObject:
        own = {name: getattr(self, name) for name in _NUMBERS}
        return {**own, "use": self.use.value, "facts": self.facts.to_json()}

    @staticmethod
    def from_json(found: JsonObject) -> Standing:
        """Reads what a keeper sent. Raises ``ExternalError`` when it is of another version's shape."""
        facts = Facts.from_json(found.get("facts", {}))
        try:
            numbers = {name: int(found[name]) for name in _NUMBERS}
            return Standing(use=Use(found["use"]), facts=facts, **numbers)
        except (KeyError, ValueError, TypeError):
            raise ExternalError("it is of another version of tidegate") from None


def why_not(warm: Standing, program: Facts) -> str:
    """Returns why a program does not run on a warm cluster; empty when it may."""
    return warm.why_not_free() or "; ".join(differences(warm.facts, program))


def differences(kept: Facts, program: Facts) -> Iterator[str]:
    """Yields in what two processes differ, as clauses of a sentence about the first."""
    if (kept.version, kept.code) != (program.version, program.code):
        yield f"it is of tidegate {kept.version} in {kept.code}, and the program of {program.version} in {program.code}"
    if kept.interpreter != program.interpreter:
        yield f"its Python is {kept.interpreter}, and the program's {program.interpreter}"
    elif kept.packages != program.packages:
        yield "packages were installed or removed since it was started"
    if kept.umask != program.umask:
        yield f"its umask is {kept.umask}, and the program's {program.umask}"
    if names := _differing(kept.environment, program.environment):
        yield f"environment variables differ: {names}"
    if names := _differing(kept.settings, program.settings):
        yield f"options of its processes differ: {names}"


def facts_now(settings: Mapping[str, str]) -> Facts:
    """Returns the facts of this process. ``settings``: all options with which it starts the processes of a cluster."""
    return Facts(
        version=VERSION,
        code=str(Path(tidegate.__file__).absolute().parent),
        interpreter=f"{sys.version.split()[0]} of {sys.prefix} ({os.path.realpath(sys.executable)})",
        packages=_digest(str([(path, _changed_ns(path)) for path in _package_folders()])),
        umask=_umask(),
        environment=digests_of_environment(os.environ),
        settings={key: _digest(text) for key, text in settings.items() if key not in OF_KEEPING},
    )


def digests_of_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns a digest of each variable on which a job may depend."""
    return {
        name: _digest(text)
        for name, text in variables.items()
        if name != HANDED_VARIABLE and not _OF_TERMINALS.fullmatch(name)
    }


def _differing(some: Mapping[str, str], others: Mapping[str, str]) -> str:
    names = sorted(name for name in {*some, *others} if some.get(name) != others.get(name))
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + rest


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _package_folders() -> list[str]:
    own = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [*site.getsitepackages(), *own]


def _changed_ns(path: str) -> int:
    """Returns when an entry of a folder was last added or removed; 0 when there is no folder."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _umask() -> str:
    """Returns the umask of this process, which only Linux tells without changing it; empty elsewhere."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    return next((line.split()[1] for line in status.splitlines() if line.startswith("Umask:")), "")
