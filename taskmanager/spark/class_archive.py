"""An archive of the classes of Spark's JVM (class data sharing), made once for a user: a JVM maps it, instead of reading and verifying 12,000 classes of jars.

    a session ends, and there is no archive for its Java, Spark and class path
        ─▶ a process at the lowest priority, which outlives this one, runs a session of its own and writes the archive (``archive_maker``)
    the next session starts ─▶ -XX:SharedArchiveFile

Laws:
1. No start fails for an archive: a JVM ignores one that does not fit it, and one with which a JVM crashed is removed (``session.start_session``).
2. An archive is code, so one is used only where other users cannot have written it: its folder and all folders above it are checked at each start.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_log = logging.getLogger(__name__)

MAKER = "tidegate.taskmanager.spark.archive_maker"
"""The module that makes an archive, as a program."""
KEPT = 3
"""How many archives a folder keeps, the ones used last: each has 70 MB, and is made again when it is missed. Chosen, not measured."""
_FORMAT = "1"
"""Changes when archives have to be made again, with other classes."""
_VARIABLES = (
    "CLASSPATH",
    "HADOOP_CONF_DIR",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_DRIVER_MEMORY",
    "SPARK_PREPEND_CLASSES",
    "SPARK_SUBMIT_OPTS",
    "YARN_CONF_DIR",
    "_JAVA_OPTIONS",
)
_PROPERTIES = (
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraJavaOptions",
    "spark.driver.extraLibraryPath",
    "spark.driver.memory",
)
"""Environment variables, and properties of the configuration, that decide on the class path and the options of the driver's JVM."""
_OWN_WAY = re.compile("SharedArchiveFile|ArchiveClassesAtExit|AutoCreateSharedArchive|-Xshare|AOT|-javaagent|-agent")
"""What in these says that the user shares classes in another way, or changes them when they are loaded."""
_UNUSABLE = re.compile(r"[:\"'\\\s$]")
"""Characters that a path has in vain: a JVM separates archives by a colon, and Spark splits options at spaces and quotes."""
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""A JVM that ignores an archive would log it, which is no news for the user."""
_CRASHES = (signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGSEGV)


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive for one Java, Spark and class path; it may not be there yet. ``properties``: those of the configuration with which it is made."""

    file: Path
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.file.parent

    @property
    def fresh(self) -> Path:
        """The file that a JVM writes, which takes the archive's name when it is complete."""
        return self.file.with_suffix(".part")

    @property
    def failure(self) -> Path:
        """A file that says why no archive could be made. While it is there, nothing tries again."""
        return self.file.with_suffix(".failed")

    def is_usable(self) -> bool:
        """Returns whether the archive is there, and only this user can have written it."""
        return is_private(self.folder) and _is_own_file(self.file)

    def options(self) -> str:
        """Returns the options for a JVM that uses the archive, and marks it as used."""
        with contextlib.suppress(OSError):
            os.utime(self.file)
        return f"-XX:SharedArchiveFile={self.file} {_QUIET}"

    def writing_options(self) -> str:
        """Returns the options for a JVM that writes the archive when it ends."""
        return f"-XX:ArchiveClassesAtExit={self.fresh} {_QUIET}"

    def remove(self) -> None:
        """Removes the archive, so that it is made again. Idempotent."""
        with contextlib.suppress(OSError):
            self.file.unlink()

    def make_soon(self, environment: Mapping[str, str] = os.environ) -> bool:
        """Starts a background process that makes the archive of the classes of Spark's JVM, unless there is a usable one; returns whether it was started.

        Does nothing in CI (``CI`` is set), where the machine is gone before the archive could be used, and after a failed attempt (``failure`` exists).
        """
        if environment.get("CI") or not prepared(self.folder) or self.failure.exists() or self.is_usable():
            return False
        try:
            with tempfile.TemporaryFile("w+") as request_file:
                json.dump({"file": str(self.file), "properties": dict(self.properties)}, request_file)
                request_file.seek(0)
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", MAKER],
                    stdin=request_file,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=self.folder,
                    env=dict(environment),
                    start_new_session=True,
                )
        except OSError as error:
            _log.warning("no archive of Spark's classes is made: %s", error)
            return False
        _log.info(
            "an archive of Spark's classes is made in the background (pid %d), so that later starts are sooner: %s",
            process.pid,
            self.file,
        )
        _makers.append(process)
        return True

    @contextlib.contextmanager
    def claimed(self) -> Iterator[bool]:
        """Locks the folder, so that one process makes an archive at a time; yields whether it was free."""
        descriptor = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    def publish(self) -> None:
        """Gives the file that a JVM has written its name, and removes the archives that were not used for longest. Raises ``OSError``."""
        descriptor = os.open(self.fresh, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            os.fchmod(descriptor, 0o600)
            os.fsync(descriptor)  # a file with its name and without its content would make JVMs crash
        finally:
            os.close(descriptor)
        self.fresh.replace(self.file)
        found = sorted(self.folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for old in found[KEPT:]:
            old.unlink(missing_ok=True)


_makers: list[subprocess.Popen[bytes]] = []
"""Processes that this one has started and does not wait for."""


def archive_of(
    folder: Path, java: Path, spark: Path, properties: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> ClassArchive | None:
    """Returns the archive in ``folder`` for a JVM of ``java`` with the class path of the Spark in ``spark``; ``None`` where the user shares classes in another
    way, or the folder's path cannot be given to a JVM.
    """
    variables = {name: environment[name] for name in _VARIABLES if name in environment}
    own = {key: properties[key] for key in _PROPERTIES if key in properties}
    if any(_OWN_WAY.search(text) for text in (*variables.values(), *own.values())):
        return None
    try:
        program, folder = java.resolve(), folder.resolve()
        home = program.parent.parent
        place = Path(environment.get("SPARK_CONF_DIR") or spark / "conf")
        files = [
            home / "lib" / "modules",
            home / "lib" / "server" / "libjvm.so",
            *_files_in(spark / "jars"),
            *_files_in(place),
        ]
        about = [_FORMAT, str(program), str(spark.resolve()), *(_seen(path) for path in files)]
    except (OSError, RuntimeError):
        return None
    if _UNUSABLE.search(str(folder)):
        return None
    about += [json.dumps(variables, sort_keys=True), json.dumps(own, sort_keys=True)]
    name = hashlib.sha256("\n".join(about).encode()).hexdigest()[:16]
    return ClassArchive(folder / f"spark-{name}.jsa", own)


def prepared(folder: Path) -> bool:
    """Creates the folder where it is missing; returns whether only this user can change what it holds."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return is_private(folder) and os.access(folder, os.W_OK)


def is_private(folder: Path) -> bool:
    """Returns whether only this user and root can change what ``folder`` holds, also by putting another folder in its place or in that of one above it."""
    own = os.geteuid()
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != own or found.st_mode & 0o022:
            return False
        above = [path.lstat() for path in folder.parents]
    except OSError:
        return False
    return all(
        found.st_uid in (own, 0)
        and stat.S_ISDIR(found.st_mode)
        and (not found.st_mode & 0o022 or found.st_mode & stat.S_ISVTX)
        for found in above
    )


def has_crashed(exit_code: int | None) -> bool:
    """Returns whether a JVM ended by itself with a fault, and not by its user or its own decision."""
    return exit_code is not None and -exit_code in _CRASHES


def _is_own_file(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _seen(path: Path) -> str:
    """Returns what tells one version of a file from another."""
    try:
        found = path.stat()
    except OSError:
        return f"{path}: none"
    return f"{path}: {found.st_size} {found.st_mtime_ns}"
