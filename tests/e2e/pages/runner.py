"""Runs a page of the documentation as a reader would: in an empty directory, every command in its order, in one shell.

| fence | is |
|---|---|
| ```` ```python file=job.py ```` | a file to be saved under that name, whatever its language |
| ```` ```console ```` | commands behind ``$ ``, each followed by what it prints |

Words behind ``console``: ``until`` repeats a command until it prints what is shown; ``exact`` compares every number; ``fails``
expects an exit code other than 0. Anything else on a page is not run.

Shown and printed lines are compared as follows. Ids, dates, sizes, durations, the host of a leader and numbers of two digits and more stand for any
like them; a single digit is meant. What an id was on the page is replaced by what it really was in the commands that follow, as
a reader would do it. Lines by which a slow start says what it waits for are left out. ``...`` stands for anything, also
for several lines. Runs of spaces and of rules are one.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.cluster import MARK, marked
from tests.e2e.waiting import wait_until

COMMAND_LIMIT_S = 400
UNTIL_LIMIT_S = 200
END_LIMIT_S = 60
_ON_A_BUSY_MACHINE = re.compile(r"^\d+ s: \S.* is (?:starting|loading|checking) .*\n", re.MULTILINE)
"""What a start says that takes longer than a few seconds."""
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME_OF_A_FILE = re.compile(r"\bfile=(\S+)")
_REMEMBERED = r"[0-9a-f]{32}|savepoint-[0-9a-f]{6}-[0-9a-f]{12}|chk-\d+|(?<=-\d )\d+(?= alive)|(?<=\(pid )\d+"
"""What a reader copies from an output into the next command."""
_ANY_LIKE_IT = {
    r"\b[\w.-]+:\d+(?= leads in term)": r"[\w.-]+:\d+",
    r"worker-[0-9a-f]{6}-\d+": r"worker-[0-9a-f]{6}-\d+",
    r"\S*/local-\d{8}-\d{6}-[0-9a-f]{6}(?=/)": r"\S*/local-\d{8}-\d{6}-[0-9a-f]{6}",
    r"(?<![0-9a-z])[0-9a-f]{8}(?=-\d+\.)": r"[0-9a-f]{8}",
    r"\d\d\.\d\d\.\d{4} \d\d:\d\d:\d\d UTC": r"\d\d\.\d\d\.\d{4} \d\d:\d\d:\d\d [\w+-]+",
    r"\b[\d.,]+ (?:B|[KMG]iB)\b": r"[\d.,]+ (?:B|[KMG]iB)",
    r"\b(?:\d+m ?)?[\d.,]+ ?m?s\b": r"(?:\d+m ?)?[\d.,]+ ?m?s",
}
_ANY_LINES = r"\n\.\.\.(?=\n|\Z)"
_NUMBER = {r"\b\d[\d.,]*\d\b": r"\d[\d.,]*"}


@dataclass(frozen=True)
class Command:
    line: int
    text: str
    shown: str
    words: frozenset[str]


@dataclass(frozen=True)
class File:
    line: int
    name: str
    content: str


def steps_of(page: Path) -> Iterator[Command | File]:
    text = page.read_text(encoding="utf-8")
    for fence in _FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 1
        info = fence["info"].split()
        if found := _NAME_OF_A_FILE.search(fence["info"]):
            yield File(line, found[1], fence["body"])
        elif info[:1] == ["console"]:
            yield from _commands(fence["body"], line, frozenset(info[1:]))


def _commands(body: str, line: int, words: frozenset[str]) -> Iterator[Command]:
    assert body.startswith("$ "), f"line {line}: a console begins with a command"
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        end = next(i for i, text in enumerate(lines, 1) if not text.endswith("\\"))
        yield Command(line, "\n".join(lines[:end]), "\n".join(lines[end:]), words)


@dataclass
class Reader:
    """A reader, who does what a page says. A context manager; ``places`` are what the page calls the directories it is read in."""

    directory: Path
    mark: str
    environment: Mapping[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    is_done: bool = field(default=False, init=False)

    def __enter__(self) -> Reader:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=self.directory,
            env={**os.environ, "PATH": path, MARK: self.mark, **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.close()
        try:
            if self.is_done:
                wait_until(lambda: not marked(self.mark), END_LIMIT_S, "the page ends all that it started")
        finally:
            for process in marked(self.mark):
                process.send_signal(signal.SIGKILL)
            self._shell.wait(END_LIMIT_S)
            self._shell.stdout.close()

    def export(self, name: str, value: str) -> None:
        """Into the environment of what the page starts."""
        self._run(f"export {name}='{value}'")

    def read(self, page: Path) -> None:
        """Raises ``AssertionError`` with page and line where what happens is not what the page says."""
        steps = list(steps_of(page))
        assert steps, f"{page.name} has nothing to run"
        for step in steps:
            if isinstance(step, File):
                target = self.directory / step.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(self._really(step.content), encoding="utf-8")
            else:
                self._do(step, page.name)
        self.is_done = True

    def _do(self, command: Command, page: str) -> None:
        deadline = time.monotonic() + UNTIL_LIMIT_S
        while True:
            printed, code = self._run(self._really(command.text))
            found = _match(self._really(command.shown), printed, is_exact="exact" in command.words)
            is_right = found is not None and (code != 0) == ("fails" in command.words)
            if is_right or "until" not in command.words or time.monotonic() > deadline:
                break
        if not is_right or found is None:
            pytest.fail(
                f"{page}:{command.line}: $ {command.text}\nexit code {code}\n--- the page shows\n{command.shown}\n"
                f"--- printed\n{printed}",
                pytrace=False,
            )
        self.places.update({shown: real for shown, real in found.items() if shown != real})

    def _really(self, text: str) -> str:
        """With the names that ids and directories have here. All at once: a real id may be another one of the page."""
        if not self.places:
            return text
        names = sorted(self.places, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, names)), lambda found: self.places[found[0]], text)

    def _run(self, command: str) -> tuple[str, int]:
        assert self._shell.stdin is not None
        end = f"end-of-{time.monotonic_ns()}"
        # No newline in front of the mark: the output is compared as it was printed, up to its last character.
        self._shell.stdin.write(f"{{ {command}\n}} < /dev/null\nprintf '%s %s\\n' {end} $?\n".encode())
        self._shell.stdin.flush()
        printed = self._until(end, command)
        output, _, code = printed.rpartition(end)
        return _ON_A_BUSY_MACHINE.sub("", output), int(code)

    def _until(self, end: str, command: str) -> str:
        stdout = self._shell.stdout
        assert stdout is not None
        deadline, read = time.monotonic() + COMMAND_LIMIT_S, b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while not re.search(rf"{end} \d+\n$".encode(), read):
                left = deadline - time.monotonic()
                is_there = left > 0 and bool(selector.select(left))
                more = os.read(stdout.fileno(), 1 << 16) if is_there else b""
                if not more:
                    pytest.fail(f"$ {command}\ndid not end in {COMMAND_LIMIT_S} s:\n{read.decode()}", pytrace=False)
                read += more
        return read.decode(errors="replace")


def _match(shown: str, printed: str, is_exact: bool) -> dict[str, str] | None:
    """What ids on the page really were, or ``None`` where the output is another one."""
    shown, printed = _plain(shown), _plain(printed)
    names: list[str] = []
    like = _ANY_LIKE_IT if is_exact else {**_ANY_LIKE_IT, **_NUMBER}
    token = re.compile("|".join(f"({pattern})" for pattern in (_REMEMBERED, _ANY_LINES, r"\.\.\.", *like)))
    expression, at = "", 0
    for found in token.finditer(shown):
        expression += re.escape(shown[at : found.start()])
        at = found.end()
        if found.lastindex == 1:
            if found[0] in names:
                expression += rf"(?P=id{names.index(found[0])})"
            else:
                expression += f"(?P<id{len(names)}>{_of_its_kind(found[0])})"
                names.append(found[0])
        elif found.lastindex == 2:
            expression += r"(?:\n.*)?"
        elif found.lastindex == 3:
            expression += ".*"
        else:
            expression += [*like.values()][(found.lastindex or 0) - 4]
    expression += re.escape(shown[at:])
    matched = re.fullmatch(expression, printed, re.DOTALL)
    return None if matched is None else {name: matched[f"id{i}"] for i, name in enumerate(names)}


def _of_its_kind(name: str) -> str:
    if re.fullmatch(r"[0-9a-f]{32}", name):
        return "[0-9a-f]{32}"
    if name.startswith("savepoint-"):
        return "savepoint-[0-9a-f]{6}-[0-9a-f]{12}"
    return r"chk-\d+" if name.startswith("chk-") else r"\d+"


def _plain(text: str) -> str:
    text = re.sub(r"─+", "─", text)
    return "\n".join(re.sub(r"\s+", " ", line).strip() for line in text.strip().splitlines())
