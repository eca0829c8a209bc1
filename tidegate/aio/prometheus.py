"""Serves ``/metrics`` for Prometheus on a port of its own, with Flink's names, scopes and labels (``PrometheusReporter.java``).

    scope taskmanager_job_task, name numRecordsIn  ─▶  flink_taskmanager_job_task_numRecordsIn{host=...,job_name=...} 5.0

Everything is a gauge, as there: what a counter counts begins again with each attempt. Figures are gathered when they are asked
for, on the loop of the process, so nothing is gathered without a reader. Where there are users, a reader is one of them; elsewhere, at loopback, it is a
process of the user whose process this is, or of root.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, ExternalError, NotAuthenticated, NotPermitted
from tidegate.model.options import MetricOptions
from tidegate.security.users import Role

if TYPE_CHECKING:
    from tidegate.aio.local_users import LocalUsers

FACTORY = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
NAME = "prom"
METRICS_ROLES: Mapping[str, Role] = {"/metrics": Role.VIEW, "/": Role.VIEW}
"""The role that each path needs where there are users."""
_log = logging.getLogger(__name__)
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9:_]")
_PORT_MAX = 65_535
"""The highest port of TCP."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric. ``scope``: Flink's logical scope with ``_``; all samples of a scope and name have the same label names."""

    scope: str
    name: str
    labels: Mapping[str, str]
    value: float

    @property
    def family(self) -> str:
        return _NOT_IN_NAMES.sub("_", f"flink_{self.scope}_{self.name}")


Gather = Callable[[], Iterable[Sample]]
Stop = Callable[[], Awaitable[None]]


def exposition(samples: Iterable[Sample]) -> bytes:
    """Renders samples in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Gathered(samples))
    return generate_latest(registry)


class _Gathered(Collector):
    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families: dict[str, GaugeMetricFamily] = {}
        for sample in self._samples:
            name = sample.family
            family = families.get(name)
            if family is None:
                family = families[name] = GaugeMetricFamily(
                    name, f"{sample.name} (scope: {sample.scope})", labels=list(sample.labels)
                )
            family.add_metric([_NOT_IN_NAMES.sub("_", value) for value in sample.labels.values()], sample.value)
        yield from families.values()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        return iter(())


def is_configured(configuration: Configuration) -> bool:
    """Tells whether the configuration enables ``/metrics`` in this process. Raises ``ConfigurationError`` for an unknown reporter."""
    names = configuration.get(MetricOptions.REPORTERS)
    factory = configuration.get(MetricOptions.PROM_FACTORY)
    unknown = [name for name in names or () if name != NAME]
    if unknown:
        raise ConfigurationError(
            f"bad configuration: metrics.reporters: tidegate has no reporter {', '.join(unknown)}, only {NAME!r}"
        )
    if factory is not None and factory != FACTORY:
        raise ConfigurationError(f"bad configuration: metrics.reporter.prom.factory.class: only {FACTORY} exists here")
    return bool(names) if names is not None else factory is not None


def ports_of(text: str) -> range:
    """Parses a port or a range of ports: ``9249``, or ``9250-9260`` for the first free one. Raises ``ConfigurationError``."""
    first, _, last = text.partition("-")
    try:
        found = range(int(first), int(last or first) + 1)
    except ValueError:
        found = range(0)
    if not found or found[0] < 0 or found[-1] > _PORT_MAX:
        raise ConfigurationError(
            f"bad configuration: metrics.reporter.prom.port: {text!r} is neither a port nor a range such as 9250-9260"
        )
    return found


async def serve_metrics(
    configuration: Configuration, host: str, gather: Gather, local_users: LocalUsers | None = None
) -> tuple[int, Stop] | None:
    """Serves ``/metrics`` on the configured port; returns the port and the function that stops it. ``None`` when no port is configured, or when every
    port is in use: that is logged, and the process goes on, as in Flink. Raises ``ConfigurationError``."""
    if not is_configured(configuration):
        return None
    from aiohttp import web  # a TaskManager that serves nothing imports no web server: 0.2 s of each start

    from tidegate.aio.admission import CHALLENGE, Admission
    from tidegate.aio.http_server import serve_http
    from tidegate.aio.own_user import OwnUser

    admission = Admission.of(configuration)
    own_user = OwnUser.of(configuration, host, local_users) if admission is None else None

    async def answer(request: web.Request) -> web.Response:
        try:
            if own_user is not None:
                await own_user.admit(request.transport)
            if admission is not None:
                header, source = request.headers.get("Authorization"), request.remote or ""
                admission.admit_bearer(header, METRICS_ROLES[request.path], f"GET {request.path}", source)
        except NotAuthenticated as error:
            return web.Response(status=401, text=f"{error.message}\n", headers=CHALLENGE)
        except NotPermitted as error:
            return web.Response(status=403, text=f"{error.message}\n")
        return web.Response(body=exposition(gather()), headers={"content-type": CONTENT_TYPE_LATEST})

    application = web.Application()
    for path in METRICS_ROLES:
        application.router.add_get(path, answer)
    ports = ports_of(configuration.get(MetricOptions.PROM_PORT))
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    what, option, refused = "Prometheus reporter", MetricOptions.PROM_PORT.key, ""
    for port in ports:
        try:
            return await serve_http(runner, host, port, what, option=option), runner.cleanup
        except ExternalError as error:
            refused = error.message
    await runner.cleanup()
    _log.warning("%s, and a range such as 9250-9260 has a port for each process of this machine", refused)
    return None
