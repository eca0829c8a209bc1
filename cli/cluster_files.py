"""The files of a cluster on this machine: one layout for all of them.

    <home>/clusters/<id>/       home: tidegate.home, ~/.tidegate      id: `default` of `tidegate cluster`, `local-...`, `demo-...`
        .owner                  locked while a process of the cluster is alive
        jobmanager.json         where the JobManager listens
        by-hand/                JobManagers of `tidegate jobmanager` whose checkpoints are here: pid, and where they listen
        pid/  log/              of the processes (or below env.pid.dir, env.log.dir)
        checkpoints/<job id>/   for jobs and clusters that set no execution.checkpointing.dir
        ha/                     the jobs that run, and their programs, for the next JobManager (`tidegate cluster` only)

The directory of `default` stays, with its logs; one of an embedded cluster is removed with it, except for checkpoints that a job
retained (`cli/embedded/own_files.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.aio.homes import own_only
from tidegate.aio.listening import is_loopback
from tidegate.aio.process import read_pid_file, write_pid_file
from tidegate.aio.working_directories import OWNER_FILE, OwnedDirectory, if_dead, own
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError
from tidegate.model.options import (
    CheckpointingOptions,
    CheckpointStorageKind,
    FileOptions,
    HighAvailabilityOptions,
    JobManagerOptions,
    ResourceManagerDriver,
    ResourceManagerOptions,
)
from tidegate.model.values import JsonObject
from tidegate.wire.manifest import METADATA_FILE

_JOB = re.compile("[0-9a-f]{32}")
DEFAULT_ID = "default"
JOB_MANAGER = "jobmanager"
CHECKPOINTS = "checkpoints"
JOBS = "ha"
BY_HAND = "by-hand"
_STARTS_HERE = (ResourceManagerDriver.PROCESS, ResourceManagerDriver.SPARK)


@dataclass(frozen=True, slots=True)
class ByHand:
    """A JobManager that a user started with `tidegate jobmanager`. ``address``: ``None`` before it listens."""

    pid: int
    address: str | None
    rest_port: int | None


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """The files of one cluster."""

    directory: Path
    pids: Path
    logs: Path

    @staticmethod
    def of(home: Path, configuration: Configuration) -> ClusterFiles:
        """Returns the files of `tidegate cluster`."""
        directory = clusters_of(home) / DEFAULT_ID
        pids = configuration.get(FileOptions.PID_DIR) if configuration.is_set(FileOptions.PID_DIR) else None
        logs = configuration.get(FileOptions.LOG_DIR)
        return ClusterFiles(directory, Path(pids or directory / "pid"), Path(logs or directory / "log"))

    @property
    def checkpoints(self) -> Path:
        return self.directory / CHECKPOINTS

    def make(self) -> None:
        """Creates the directories. Raises ``ExternalError``."""
        try:
            for path in (self.directory, self.pids, self.logs):
                path.mkdir(parents=True, exist_ok=True)
            own_only(self.directory)
        except OSError as error:
            raise ExternalError(
                f"cannot make {error.filename}: {error.strerror}; give another directory (tidegate.home)"
            ) from None

    def own(self, configuration: Configuration) -> OwnedDirectory:
        """Locks the directory for this process and the children that inherit the lock. Raises ``ExternalError``.

        If no process held it, unfinished checkpoints of a killed JobManager are deleted, except of jobs that the next one goes on with: that
        deletes them itself, and continues from their ids.
        """
        is_ours = not configuration.is_set(HighAvailabilityOptions.TYPE)
        try:
            with if_dead(self.directory) as is_dead:
                if is_dead and is_ours:
                    remove_unfinished(
                        self.checkpoints, {path.name for path in (self.directory / JOBS).glob("*/execution-plans/*")}
                    )
            return own(self.directory)
        except OSError as error:
            raise ExternalError(
                f"cannot write into {self.directory}: {error.strerror}; give another directory (tidegate.home)"
            ) from None

    def checkpoint_definitions(self, configuration: Configuration) -> list[str]:
        """Returns the default of ``execution.checkpointing.dir`` as a definition for the JobManager.

        Empty when the configuration sets it, or when TaskManagers of other machines, which do not have this disk, may register.
        """
        options = CheckpointingOptions
        is_said = configuration.is_set(options.DIRECTORY) or configuration.get(options.STORAGE) is not None
        if is_said or not is_loopback(configuration.get(JobManagerOptions.BIND_HOST)):
            return []
        return [f"{options.DIRECTORY.key}={self.checkpoints}"]

    def high_availability_definitions(self, configuration: Configuration) -> list[str]:
        """Returns the default of ``high-availability.type``, which stores jobs next to their checkpoints; empty when it is set."""
        options = HighAvailabilityOptions
        if configuration.is_set(options.TYPE) or not self.checkpoint_definitions(configuration):
            return []
        return [f"{options.TYPE.key}=filesystem", f"{options.STORAGE_DIR.key}={self.directory / JOBS}"]

    def definitions(self, configuration: Configuration) -> list[str]:
        """Returns the defaults of the JobManager of ``tidegate cluster`` for its jobs, checkpoints and TaskManagers, where nothing is configured."""
        own = (self.checkpoint_definitions, self.high_availability_definitions, self.worker_definitions)
        return [definition for definitions in own for definition in definitions(configuration)]

    def worker_definitions(self, configuration: Configuration) -> list[str]:
        """Returns the default of ``tidegate.resourcemanager.driver``: the JobManager starts TaskManagers when jobs lack slots.

        The files of TaskManagers that it starts on this machine are next to those of the others, so that `tidegate cluster` finds and stops them.
        """
        driver = ResourceManagerOptions.DRIVER
        is_own = not configuration.is_set(driver)
        if not is_own and configuration.get(driver) not in _STARTS_HERE:
            return []
        places = {FileOptions.PID_DIR.key: self.pids, FileOptions.LOG_DIR.key: self.logs}
        found = [f"{key}={path}" for key, path in places.items() if is_own or key not in configuration]
        return [f"{driver.key}=process", *found] if is_own else found

    def forget_jobs(self) -> bool:
        """Deletes the stored jobs, so that the next JobManager starts with none; returns whether there were any."""
        jobs = self.directory / JOBS
        had_any = any(jobs.glob("*/execution-plans/*"))
        shutil.rmtree(jobs, ignore_errors=True)
        return had_any

    def where_checkpoints_go(self, configuration: Configuration) -> str:
        """Returns the directory of checkpoints, for humans; empty when they stay in the JobManager's memory."""
        if self.checkpoint_definitions(configuration):
            return str(self.checkpoints)
        if configuration.get(CheckpointingOptions.STORAGE) is CheckpointStorageKind.JOBMANAGER:
            return ""
        return configuration.get(CheckpointingOptions.DIRECTORY) or ""

    # ---- processes ---------------------------------------------------------------------------------------------------

    def running(self) -> dict[str, int]:
        """Returns the pids of running processes by name."""
        found = {path.stem: read_pid_file(path) for path in sorted(self.pids.glob("*manager*.pid"))}
        return {name: pid for name, pid in found.items() if pid is not None}

    def lost(self, forget_after_s: float) -> dict[str, float]:
        """Returns when each dead process last wrote, in seconds of the epoch, by name.

        TaskManagers that have been silent for longer than ``forget_after_s`` are forgotten.
        """
        running, found = self.running(), {}
        for name in self.known():
            if name not in running:
                pid_file = self.pids / f"{name}.pid"
                last_seen_s = max(map(_modified_s, (pid_file, self.logs / f"{name}.log", self.logs / f"{name}.out")))
                if name != JOB_MANAGER and time.time() - last_seen_s > forget_after_s:
                    pid_file.unlink(missing_ok=True)
                else:
                    found[name] = last_seen_s
        return found

    def note_by_hand(self, host: str = "", ports: Mapping[str, int] | None = None) -> None:
        """Notes this process as a JobManager that was started by hand, with ``ports`` its address; the note is removed after its end."""
        place = self.directory / BY_HAND / f"{JOB_MANAGER}-{os.getpid()}.pid"
        with contextlib.suppress(OSError):  # the note is for `cluster status` alone
            if ports:
                place.with_suffix(".json").write_text(json.dumps({**ports, "host": host}), encoding="utf-8")
            write_pid_file(place)

    def by_hand(self) -> list[ByHand]:
        """Returns running JobManagers that were started by hand; removes the notes of others."""
        found = []
        for place in sorted((self.directory / BY_HAND).glob(f"{JOB_MANAGER}-*.pid")):
            if (pid := read_pid_file(place)) is not None:
                ports = _ports_in(place.with_suffix(".json"))
                address = f"{ports['host']}:{ports['rpc_port']}" if ports else None
                found.append(ByHand(pid, address, ports.get("rest_port")))
            else:
                for path in (place.with_suffix(".json"), place):
                    path.unlink(missing_ok=True)
        if not found:
            with contextlib.suppress(OSError):  # it is not there
                (self.directory / BY_HAND).rmdir()
        return found

    def known(self) -> list[str]:
        return sorted(path.stem for path in self.pids.glob("*manager*.pid"))

    def forget(self) -> None:
        """Removes the files of the processes, none of which is running."""
        for name in self.known():
            (self.pids / f"{name}.pid").unlink(missing_ok=True)
        self._ports.unlink(missing_ok=True)
        with if_dead(self.directory) as is_dead:
            if is_dead:
                (self.directory / OWNER_FILE).unlink(missing_ok=True)
        for directory in (self.pids, self.checkpoints):
            with contextlib.suppress(OSError):  # it holds something
                directory.rmdir()

    def withdraw(self) -> None:
        """Removes what a failed start has left, except the logs and what was there before. None of its processes is running."""
        self.forget()
        if not any((self.directory / JOBS).glob("*/execution-plans/*")):
            self.forget_jobs()

    def listens(self, host: str, ports: dict[str, int]) -> None:
        self._ports.write_text(json.dumps({**ports, "host": host}), encoding="utf-8")

    def address(self) -> str | None:
        """Returns the address of the JobManager that was started last, or ``None``."""
        ports = self.ports()
        return f"{ports['host']}:{ports['rpc_port']}" if ports else None

    def ports(self) -> JsonObject:
        """Returns ``host``, ``rpc_port`` and ``rest_port`` of the JobManager that was started last; empty when there was none."""
        return _ports_in(self._ports)

    @property
    def _ports(self) -> Path:
        return self.directory / f"{JOB_MANAGER}.json"


def _ports_in(path: Path) -> JsonObject:
    try:
        ports = json.loads(path.read_text(encoding="utf-8"))
        return {name: ports[name] for name in ("host", "rpc_port", "rest_port")}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _modified_s(path: Path) -> float:
    """Returns when a file was last modified; 0 when it does not exist."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def clusters_of(home: Path) -> Path:
    """Returns the directory that contains a directory for each cluster."""
    return home.expanduser().absolute() / "clusters"


def remove_unfinished(checkpoints: Path, but: Collection[str] = ()) -> None:
    """Deletes directories of checkpoints that were never completed, and empty directories of jobs. No process may use them.

    Files in ``shared`` stay: a job that was restored from one of these elsewhere may use them. ``but``: jobs that are skipped.
    """
    for job in checkpoints.glob("*"):
        if _JOB.fullmatch(job.name) and job.name not in but:
            for numbered in job.glob("chk-*"):
                if not (numbered / METADATA_FILE).exists():
                    shutil.rmtree(numbered, ignore_errors=True)
            for directory in (job / "shared", job / "taskowned", job):
                with contextlib.suppress(OSError):  # it holds something, or is not there
                    directory.rmdir()
