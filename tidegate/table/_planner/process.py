"""The Java process of the planner: started once by a program, and ended with it even when the program is killed.

    program ── standard input, a pipe ──▶ sh ─▶ java        the pipe breaks ─▶ java ends ─▶ sh removes the directory
             ◀─ port and token, by its standard output ──

A directory of its own holds Java's temporary files and its log. What a first run has loaded is written, at its end, to an archive in
the cache, which later ones map instead of reading 30,000 classes; where the cache cannot be written they start without.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import shutil
import signal
import subprocess
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tidegate.aio.working_directories import make_working_directory
from tidegate.model.configuration import Configuration
from tidegate.table._planner.errors import PlannerUnavailable
from tidegate.table._planner.jars import Jars, find_jars, find_java

START_LIMIT_S = 120.0
"""How many seconds the planner's start may take; far more than on a busy machine."""
_PLANNER_JAR = "flink-table-planner.jar"
_OPENED = (
    "java.lang",
    "java.util",
    "java.time",
    "java.math",
    "java.net",
    "java.nio",
    "java.text",
    "java.util.concurrent",
)
_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmx768m",
    "-Xshare:auto",
    "-Xlog:disable",
    "-Dlog4j2.level=ERROR",
    "-Duser.language=en",
)
_SHELL = """
trap : INT TERM HUP
"$@"
status=$?
if [ -n "$ARCHIVE" ] && [ -s "$DIRECTORY/new.jsa" ]; then mv -f "$DIRECTORY/new.jsa" "$ARCHIVE"; fi
rm -rf "$DIRECTORY"
exit $status
"""
"""The shell script that runs Java and removes its directory afterwards, also when Java is killed."""
_LOG_BYTES = 2000
"""How many bytes of the log an error message shows. Chosen: about 20 lines."""


@dataclass
class PlannerProcess:
    """A running planner process. ``port`` and ``token`` give access to its gateway on 127.0.0.1."""

    process: subprocess.Popen[bytes]
    directory: Path
    port: int
    token: str
    log: BinaryIO
    """What Java wrote to its standard error; readable after its directory is removed."""

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def stop(self, limit_s: float = 10.0) -> None:
        """Stops the process; its archive is written and its directory removed in the background."""
        self._close_pipes()
        if _writes_an_archive(self.process.args):
            return
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kills the process and removes its directory."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._close_pipes()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _close_pipes(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout, self.log):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def log_tail(self) -> str:
        """Returns the end of ``log``."""
        content = os.pread(self.log.fileno(), 1 << 20, 0) if not self.log.closed else b""
        return content[-_LOG_BYTES:].decode(errors="replace").strip()


def start_planner(environment: Mapping[str, str] = os.environ, limit_s: float = START_LIMIT_S) -> PlannerProcess:
    """Starts the planner's process. Raises ``PlannerUnavailable`` without Java or jars, or if the process exits or does not answer within ``limit_s``."""
    jars, java = find_jars(environment), find_java(environment)
    owned = make_working_directory("planner", Configuration({}))
    cache = _cache(environment)
    archive: Path | None = None
    try:
        class_path = [*jars.others, _planner_jar(jars, cache)]
        options = [*_OPTIONS, f"-Djava.io.tmpdir={owned.directory}"]
        options += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        if cache is not None:
            archive = _archive(cache, java, class_path)
            use = f"-XX:SharedArchiveFile={archive}" if archive.exists() else _dump_to(owned.directory)
            options.append(use)
        server = ["py4j.GatewayServer", "--enable-auth", "--die-on-broken-pipe", "0"]
        command = [java, *options, "-cp", os.pathsep.join(map(str, class_path)), *server]
        log = (owned.directory / "log").open("w+b")
        process = subprocess.Popen(
            ["/bin/sh", "-c", _SHELL, "tidegate-planner", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=owned.directory,
            env={**_plain(environment), "DIRECTORY": str(owned.directory), "ARCHIVE": str(archive or "")},
            start_new_session=True,
            pass_fds=[owned.descriptor],
        )
    except OSError as error:
        owned.remove()
        raise PlannerUnavailable(f"Flink's planner could not be started: {error}") from error
    except PlannerUnavailable:
        owned.remove()
        raise
    owned.release()
    started = PlannerProcess(process, owned.directory, 0, "", log)
    started.port, started.token = _answer(started, limit_s)
    return started


def _answer(started: PlannerProcess, limit_s: float) -> tuple[int, str]:
    """Reads port and token, a line each, from the process."""
    stream = started.process.stdout
    assert stream is not None
    said, deadline = b"", time.monotonic() + limit_s
    while said.count(b"\n") < 2:
        ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(stream.fileno(), 4096) if ready else b""
        if not part:
            log = started.log_tail()
            started.kill()
            reason = "ended before it answered" if ready else f"did not answer within {limit_s:g} s"
            raise PlannerUnavailable(f"the Java process of Flink's planner {reason}{': ' + log if log else ''}")
        said += part
    port, token = said.decode().split("\n")[:2]
    return int(port), token.strip()


def _planner_jar(jars: Jars, cache: Path | None) -> Path:
    """Extracts the planner's own jar from its loader into the cache, which spares every start that work and lets Java map its classes."""
    if cache is None:
        return jars.planner_loader
    target = cache / f"flink-table-planner-{jars.version}.jar"
    with zipfile.ZipFile(jars.planner_loader) as loader:
        wanted = loader.getinfo(_PLANNER_JAR).file_size
        if not target.exists() or target.stat().st_size != wanted:
            fresh = target.with_suffix(f".{os.getpid()}")
            try:
                fresh.write_bytes(loader.read(_PLANNER_JAR))
                fresh.rename(target)
            except OSError:
                fresh.unlink(missing_ok=True)
                return jars.planner_loader
    return target


def _cache(environment: Mapping[str, str]) -> Path | None:
    """Returns the user's cache folder of tidegate, where the planner's class data archive is kept; ``None`` if it cannot be written."""
    given = environment.get("XDG_CACHE_HOME")
    try:
        folder = (Path(given) if given else Path.home() / ".cache") / "tidegate"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK) else None


def _archive(cache: Path, java: str, class_path: Sequence[Path]) -> Path:
    """Returns the path of the class data archive, whose name depends on the Java and class path that it is valid for."""
    stamps = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in class_path]
    home = Path(java).resolve()
    made_with = "\n".join([str(home), str(home.stat().st_mtime_ns), *_OPTIONS, *stamps])
    return cache / f"planner-{hashlib.sha256(made_with.encode()).hexdigest()[:16]}.jsa"


def _dump_to(directory: Path) -> str:
    return f"-XX:ArchiveClassesAtExit={directory / 'new.jsa'}"


def _writes_an_archive(command: object) -> bool:
    return isinstance(command, list) and any(str(part).startswith("-XX:ArchiveClassesAtExit") for part in command)


def _plain(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment without the variables that inject options into every Java process."""
    return {name: text for name, text in environment.items() if name not in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")}
