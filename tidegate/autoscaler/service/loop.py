"""The control loop: samples every job that enables the autoscaler once in each ``autoscaler.standalone.control-loop.interval`` (Flink:
``StandaloneAutoscalerExecutor.java``)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from tidegate.aio.admission import call_metadata
from tidegate.aio.https import https_client
from tidegate.autoscaler.machines.autoscaler_settings import autoscaler_settings
from tidegate.autoscaler.machines.history import Scaling
from tidegate.autoscaler.machines.job_autoscaler import JobAutoscaler, JobSample
from tidegate.autoscaler.service.collecting import collect, realize
from tidegate.autoscaler.service.rest import RestClient
from tidegate.model.configuration import Configuration
from tidegate.model.errors import TidegateError
from tidegate.model.options import AutoScalerOptions, AutoscalerStandaloneOptions

_log = logging.getLogger("autoscaler")
_OF_JOBS = "job.autoscaler."

Wait = Callable[[float], bool]
"""Waits for some seconds; returns whether the process must end."""


class Autoscaler:
    """The autoscaler of a cluster. ``find``: returns the current address of the REST API, such as ``http://localhost:8081``, or raises ``TidegateError``."""

    def __init__(
        self,
        configuration: Configuration,
        find: Callable[[], str],
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Reads the configuration. Raises ``ConfigurationError``."""
        autoscaler_settings(configuration)
        self._configuration = configuration
        self._find = find
        self._clock_ms = clock_ms
        self._timeout_s = configuration.get(AutoScalerOptions.CLIENT_TIMEOUT) / 1000
        self._jobs: dict[str, JobAutoscaler] = {}
        self._failure: dict[str, str] = {}
        """What was logged last, by job; of the cluster under no name."""

    def run(self, wait: Wait) -> None:
        interval_s = self._configuration.get(AutoscalerStandaloneOptions.CONTROL_LOOP_INTERVAL) / 1000
        while True:
            self.look()
            if wait(interval_s):
                return

    def look(self) -> None:
        """Samples and scales every running job once. Errors are logged."""
        try:
            headers = dict(call_metadata(self._configuration))
            rest = RestClient(self._find(), self._timeout_s, https_client(self._configuration), headers)
            running = rest.running_jobs()
        except TidegateError as error:
            self._note("", error.message)
            return
        self._note("", "")
        for job_id in [job_id for job_id in self._jobs if job_id not in running]:
            del self._jobs[job_id]
        for job_id, name in running.items():
            try:
                self._look_at(rest, job_id, name)
            except TidegateError as error:
                self._note(job_id, error.message)
            except (KeyError, TypeError, ValueError) as error:
                self._note(job_id, f"the REST API answers in another form than Flink's: {error!r}")
            else:
                self._note(job_id, "")

    def _look_at(self, rest: RestClient, job_id: str, name: str) -> None:
        said = {key: text for key, text in rest.configuration(job_id).items() if key.startswith(_OF_JOBS)}
        settings = autoscaler_settings(self._configuration.merged(Configuration.from_strings(said)))
        if not settings.is_enabled:
            self._jobs.pop(job_id, None)
            return
        autoscaler = self._jobs.setdefault(job_id, JobAutoscaler())
        observed = settings.observed_min_observations

        def observed_rate(vertex_id: str) -> float:
            return autoscaler.window.average(vertex_id, "observed_rate", observed)

        sample = collect(rest, job_id, settings, observed_rate)
        if sample is None:
            return
        cycle = autoscaler.on_sample(settings, sample, self._clock_ms())
        for text in cycle.said:
            _log.info("%s: %s", name, text)
        for line in _described(sample, cycle.scaled):
            _log.info("%s: %s", name, line)
        if cycle.parallelism and realize(rest, job_id, cycle.parallelism):
            _log.info("%s: requested the new parallelism from the JobManager", name)

    def _note(self, job_id: str, text: str) -> None:
        """Logs a failure once, and its end."""
        before = self._failure.get(job_id, "")
        if text and text != before:
            _log.warning("%s%s", f"job {job_id}: " if job_id else "", text)
        if before and not text:
            _log.info("%s", f"job {job_id} is looked at again" if job_id else "the cluster answers again")
        self._failure[job_id] = text


def _described(sample: JobSample, scaled: Mapping[str, Scaling]) -> list[str]:
    return [
        f"{sample.topology.by_id[vertex_id].name}: parallelism {scaling.current} -> {scaling.new}, since it can process "
        f"{scaling.evaluated.true_processing_rate:g} records per second, has to process {scaling.evaluated.target_data_rate:g} and is busy for "
        f"{scaling.evaluated.load:.0%} of the time"
        for vertex_id, scaling in scaled.items()
    ]
