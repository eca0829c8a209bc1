"""The role that each path needs when a cluster has users: paths of the REST API and of the page."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.jobmanager.rest.http.errors import RestError
from tidegate.jobmanager.rest.routes import Router, reads
from tidegate.security.users import Role

_JOB, _VERTEX = "/jobs/:jobid", "/jobs/:jobid/vertices/:vertexid"
_SUBTASK, _TASK_MANAGER = f"{_VERTEX}/subtasks/:subtaskindex", "/taskmanagers/:taskmanagerid"

_VIEWED = (
    "/config", "/overview", "/datasets", "/jobmanager/config", "/jobmanager/environment", "/jobmanager/metrics", "/jobmanager/profiler",
    "/taskmanagers", "/workers", "/taskmanagers/metrics", _TASK_MANAGER, f"{_TASK_MANAGER}/metrics", f"{_TASK_MANAGER}/profiler",
    "/openapi.json", "/faults", "/jars", "/jobs", "/jobs/overview", "/jobs/metrics",
    _JOB, f"{_JOB}/config", f"{_JOB}/plan", f"{_JOB}/exceptions", f"{_JOB}/kept-failures", f"{_JOB}/accumulators", f"{_JOB}/execution-result", f"{_JOB}/status",
    f"{_JOB}/metrics", f"{_JOB}/jobmanager/config", f"{_JOB}/jobmanager/environment", f"{_JOB}/jobmanager/log-url",
    f"{_JOB}/taskmanagers/:taskmanagerid/log-url", f"{_JOB}/resource-requirements",
    f"{_JOB}/rescales/config", f"{_JOB}/rescales/overview", f"{_JOB}/rescales/summary", f"{_JOB}/rescales/history",
    f"{_JOB}/rescales/details/:rescaleuuid",
    f"{_JOB}/checkpoints", f"{_JOB}/checkpoints/config", f"{_JOB}/checkpoints/details/:checkpointid",
    f"{_JOB}/checkpoints/details/:checkpointid/subtasks/:vertexid", f"{_JOB}/checkpoints/:triggerid", f"{_JOB}/savepoints/:triggerid",
    "/savepoint-disposal/:triggerid", "/applications/overview", "/applications/:jobid", "/applications/:jobid/exceptions",
    "/applications/:jobid/jobmanager/config",
    _VERTEX, f"{_VERTEX}/accumulators", f"{_VERTEX}/backpressure", f"{_VERTEX}/jm-operator-metrics", f"{_VERTEX}/metrics",
    f"{_VERTEX}/subtasktimes", f"{_VERTEX}/taskmanagers", f"{_VERTEX}/watermarks", f"{_VERTEX}/subtasks/accumulators",
    f"{_VERTEX}/subtasks/metrics", _SUBTASK, f"{_SUBTASK}/metrics", f"{_SUBTASK}/attempts/:attempt",
    f"{_SUBTASK}/attempts/:attempt/accumulators",
    "/jobs/:jobid/rescaling/:triggerid", "/datasets/delete/:triggerid",
    "/web/events", "/web/settings", "/web/plots", "/web/rescale",
)  # fmt: skip
_SHOWING_DATA = (
    "/jobmanager/log", "/jobmanager/stdout", "/jobmanager/logs", "/jobmanager/logs/:filename", "/jobmanager/thread-dump",
    f"{_TASK_MANAGER}/log", f"{_TASK_MANAGER}/stdout", f"{_TASK_MANAGER}/logs", f"{_TASK_MANAGER}/logs/:filename",
    f"{_TASK_MANAGER}/thread-dump", f"{_VERTEX}/flamegraph", "/jobmanager/profiler/:filename", f"{_TASK_MANAGER}/profiler/:filename",
    "/web/state",
)  # fmt: skip

REST_ROLES: Mapping[tuple[str, str], Role] = {
    **{("GET", path): Role.VIEW for path in _VIEWED},
    **{("GET", path): Role.DATA for path in _SHOWING_DATA},
    ("PATCH", _JOB): Role.OPERATE,
    ("GET", f"{_JOB}/yarn-cancel"): Role.OPERATE,
    ("GET", f"{_JOB}/yarn-stop"): Role.OPERATE,
    ("PATCH", f"{_JOB}/clientHeartbeat"): Role.OPERATE,
    ("PUT", f"{_JOB}/resource-requirements"): Role.OPERATE,
    ("PATCH", f"{_JOB}/rescaling"): Role.OPERATE,
    ("POST", f"{_JOB}/checkpoints"): Role.OPERATE,
    ("POST", f"{_JOB}/savepoints"): Role.OPERATE,
    ("POST", f"{_JOB}/stop"): Role.OPERATE,
    ("POST", "/savepoint-disposal"): Role.OPERATE,
    ("POST", "/applications/:jobid/cancel"): Role.OPERATE,
    ("POST", "/faults"): Role.OPERATE,
    ("POST", "/jobmanager/profiler"): Role.OPERATE,
    ("POST", f"{_TASK_MANAGER}/profiler"): Role.OPERATE,
    ("DELETE", "/datasets/:datasetid"): Role.OPERATE,
    ("POST", f"{_JOB}/coordinators/:operatorUid"): Role.OPERATE,
    ("DELETE", "/cluster"): Role.DEPLOY,
    ("POST", "/jobs"): Role.DEPLOY,
    ("POST", "/jars/upload"): Role.DEPLOY,
    ("DELETE", "/jars/:jarid"): Role.DEPLOY,
    ("GET", "/jars/:jarid/plan"): Role.DEPLOY,
    ("POST", "/jars/:jarid/plan"): Role.DEPLOY,
    ("POST", "/jars/:jarid/run"): Role.DEPLOY,
    ("POST", "/jars/:jarid/run-application"): Role.DEPLOY,
}

OPEN_PATHS = ("/", "/web/session", "/web/{name:.+}", "/docs", "/docs/{name:.*}", "/flink", "/flink/{path:.*}")
"""Paths of the page that need no role: its files, which contain nothing of the cluster, and the sign-in.

A path below ``/flink`` that is no file is one of the REST API.
"""


class ReadingRoles:
    """Finds the role of a GET path by the table, for a server that has no handlers of its patterns."""

    def __init__(self) -> None:
        self._router = Router(reads(pattern, lambda _: None) for method, pattern in REST_ROLES if method == "GET")

    def of(self, raw_path: str) -> Role:
        """Returns the role that a path needs; the least one for a path that is not in the REST API."""
        try:
            route, _ = self._router.find("GET", raw_path)
        except RestError:
            return Role.VIEW
        return REST_ROLES["GET", route.pattern]
