"""A client of Flink's REST API with the calls of the autoscaler, which checks the JSON of answers."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tidegate.model.errors import ExternalError, Unreachable
from tidegate.model.values import Json, JsonObject

_SHOWN_CHARACTERS = 300
"""The most characters of an invalid answer in messages: enough to identify its sender."""


class RestClient:
    """Calls the REST API of one cluster. Every method raises ``Unreachable`` when no answer arrives within ``timeout_s``, and ``ExternalError`` for an
    error or an invalid answer."""

    def __init__(
        self,
        address: str,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Creates a client for a JobManager's REST address. ``tls``: for HTTPS. ``headers``: sent with each request, to authenticate the user."""
        self._headers = headers
        self._address, self._tls = address, tls
        self._timeout_s = timeout_s

    def running_jobs(self) -> Mapping[str, str]:
        """Returns the names of the running jobs by id."""
        jobs = self._get("/jobs/overview")["jobs"]
        return {str(job["jid"]): str(job["name"]) for job in jobs if job["state"] == "RUNNING"}

    def configuration(self, job_id: str) -> Mapping[str, str]:
        """Returns the configuration of a job: the cluster's, overridden by its own."""
        return {str(entry["key"]): str(entry["value"]) for entry in self._get(f"/jobs/{job_id}/jobmanager/config")}

    def job(self, job_id: str) -> Json:
        return self._get(f"/jobs/{job_id}")

    def metric_names(self, job_id: str, vertex_id: str) -> list[str]:
        return [str(found["id"]) for found in self._get(f"/jobs/{job_id}/vertices/{vertex_id}/subtasks/metrics")]

    def vertex_metrics(self, job_id: str, vertex_id: str, names: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        """Returns the metrics of a vertex, aggregated over its subtasks."""
        return self._aggregates(f"/jobs/{job_id}/vertices/{vertex_id}/subtasks/metrics", names)

    def task_manager_metrics(self, names: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        """Returns the metrics of the TaskManagers, aggregated over all of them."""
        return self._aggregates("/taskmanagers/metrics", names)

    def upper_bounds(self, job_id: str) -> JsonObject:
        """Returns the resource requirements of a job, in Flink's form."""
        found: JsonObject = self._get(f"/jobs/{job_id}/resource-requirements")
        return found

    def require(self, job_id: str, requirements: JsonObject) -> None:
        self._ask(f"/jobs/{job_id}/resource-requirements", json.dumps(requirements).encode())

    def _aggregates(self, path: str, names: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        if not names:
            return {}
        found = self._get(f"{path}?{urllib.parse.urlencode({'get': ','.join(names)})}")
        return {
            str(one["id"]): {kind: float(value) for kind, value in one.items() if kind != "id" and value != "NaN"}
            for one in found
        }

    def _get(self, path: str) -> Json:
        return self._ask(path, None)

    def _ask(self, path: str, body: bytes | None) -> Json:
        request = urllib.request.Request(
            f"{self._address}{path}",
            body,
            {"Content-Type": "application/json", **self._headers},
            method="GET" if body is None else "PUT",
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s, context=self._tls) as answer:
                said = answer.read()
            return json.loads(said) if said else {}
        except urllib.error.HTTPError as error:
            raise ExternalError(f"{self._address}{path} answered {error.code}: {_errors_of(error.read())}") from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise Unreachable(f"no answer from {self._address}: {why}") from None
        except ValueError:
            shown = said[:_SHOWN_CHARACTERS].decode("utf-8", "replace")
            raise ExternalError(f"{self._address}{path} answered with something that is not JSON: {shown}") from None


def _errors_of(body: bytes) -> str:
    """Returns the error messages of an answer in Flink's form, or its text."""
    try:
        return "; ".join(str(text).splitlines()[0] for text in json.loads(body)["errors"] if text)
    except (ValueError, KeyError, TypeError, IndexError):
        return body[:_SHOWN_CHARACTERS].decode("utf-8", "replace")
