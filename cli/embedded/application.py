"""Application mode: a JobManager that runs one job and ends with it (Flink: ``ApplicationClusterEntryPoint.java``).

    JobManager leads ─▶ is the job known here? ── no ──▶ the program runs, in a process of its own, and submits it ─┐
                                │ yes: submitted before                                                             ├─▶ over ─▶ SIGTERM to this process
                                └───────────────────────▶ watched ──────────────────────────────────────────────────┘

Where jobs are stored (``high-availability.type``), the job has a fixed id: a JobManager that is started again goes on with it, and once it is
over, it is not run again. Otherwise each start runs it anew.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from tidegate.aio.parents import dying_with_this
from tidegate.aio.settings import handing_over
from tidegate.cli.client import JobManagerClient
from tidegate.cli.errors import FAILED
from tidegate.cli.options import client_at
from tidegate.model.configuration import Configuration
from tidegate.model.errors import TidegateError
from tidegate.model.ids import JobId, hex_id
from tidegate.model.masking import SECRETS
from tidegate.model.options import HighAvailabilityOptions, HighAvailabilityType
from tidegate.model.states import JobState

_EXIT_CODES = {JobState.FINISHED: 0, JobState.CANCELED: 0}
"""The exit code by the job's final state, as in Flink (``ApplicationStatus``): a canceled job is no failure."""


@dataclass(frozen=True, slots=True)
class Application:
    """A program and how it is run. ``options``: those of ``tidegate run``."""

    job: Path
    arguments: Sequence[str] = ()
    options: Sequence[str] = ()
    definitions: Sequence[str] = ()
    """The values of ``-D``."""


class ApplicationRun:
    """Runs the job of an application. Call ``begin`` when the JobManager leads; ``exit_code`` is set once the job has ended."""

    def __init__(self, application: Application, configuration: Configuration) -> None:
        self._application, self._configuration = application, configuration
        self._is_kept = configuration.get(HighAvailabilityOptions.TYPE) is not HighAvailabilityType.NONE
        cluster = configuration.get(HighAvailabilityOptions.CLUSTER_ID)
        self.job_id = JobId(hex_id("application", str(cluster)) if self._is_kept else secrets.token_hex(16))
        self.exit_code = 0
        self._is_over = False
        self._thread: threading.Thread | None = None

    def begin(self, address: str) -> None:
        """Starts the application's job, or continues to watch it after this JobManager was elected leader again. ``address``: the address of the JobManager."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, args=(address,), name="application", daemon=True)
            self._thread.start()

    def _run(self, address: str) -> None:
        code = FAILED
        try:
            with client_at(self._configuration, address) as client:
                code = self._run_with(client, address)
        except TidegateError as error:
            click.echo(SECRETS.masked(f"error: {error.message}"), err=True)
        self.exit_code = code
        os.kill(os.getpid(), signal.SIGTERM)

    def _run_with(self, client: JobManagerClient, address: str) -> int:
        state = self._state(client)
        if state is None:
            code = self._run_program(address)
            state = self._state(client)
            if state is None or code == 0:
                return code  # it did not submit a job, or waited for its end
        if not state.is_terminal:
            click.echo(f"job {self.job_id} of this cluster goes on", err=True)
            for status in client.watch_beyond(self.job_id):
                state = JobState(status.state)
        click.echo(f"job {self.job_id} is {state.value}", err=True)
        return _EXIT_CODES.get(state, FAILED)

    def _run_program(self, address: str) -> int:
        application = self._application
        command = [
            sys.executable,
            "-m",
            "tidegate.cli.main",
            "run",
            f"--job-id={self.job_id}",
            f"--jobmanager={address}",
        ]
        command += [*application.options, str(application.job), *application.arguments]
        environment = {**os.environ, **handing_over(application.definitions)}
        return subprocess.run(
            dying_with_this(command), stdin=subprocess.DEVNULL, env=environment, check=False
        ).returncode

    def _state(self, client: JobManagerClient) -> JobState | None:
        """Returns the state of the job, also from the archive; ``None`` when it was never submitted."""
        for job in client.list_jobs(include_terminal=True):
            if job.job_id == self.job_id:
                return JobState(job.state)
        return None
