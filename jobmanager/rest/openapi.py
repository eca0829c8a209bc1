"""The OpenAPI 3.1 description of this REST API, generated from its routes: paths, parameters, bodies and errors.

Answers are those of Flink's published API: they are described there, and compared with recordings in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tidegate.jobmanager.rest.routes import Route, reads
from tidegate.model.values import JsonObject
from tidegate.wire.versions import VERSION

_PARAMETER = re.compile(r":(\w+)")
_HEX_ID: JsonObject = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_NUMBER: JsonObject = {"type": "integer", "minimum": 0, "maximum": 2**53}
_TEXT: JsonObject = {"type": "string"}
_BOOL: JsonObject = {"type": "boolean"}
_MAYBE_TEXT: JsonObject = {"type": ["string", "null"]}
_LIST: JsonObject = {"type": "string", "description": "Several, with commas between them."}
_FORMAT: JsonObject = {"type": ["string", "null"], "enum": ["CANONICAL", "NATIVE", None]}
_TRIGGER: JsonObject = {"type": ["string", "null"], "pattern": "^[0-9a-f]{32}$"}

PATH_SCHEMAS: Mapping[str, JsonObject] = {
    "jobid": _HEX_ID,
    "vertexid": _HEX_ID,
    "triggerid": _HEX_ID,
    "datasetid": _HEX_ID,
    "subtaskindex": _NUMBER,
    "attempt": _NUMBER,
    "checkpointid": _NUMBER,
}
"""The schemas of path parameters; others are texts."""

_GET, _AGGREGATE = {"get": _LIST}, {"get": _LIST, "agg": _LIST}
_PROGRAM: Mapping[str, JsonObject] = {
    "programArg": _LIST,
    "program-args": _TEXT,
    "entry-class": _TEXT,
    "parallelism": {"type": "integer", "minimum": 1, "maximum": 32_768},
}
_RUN: Mapping[str, JsonObject] = {**_PROGRAM, "savepointPath": _TEXT, "allowNonRestoredState": _BOOL}
QUERIES: Mapping[str, Mapping[str, JsonObject]] = {
    "/jobmanager/metrics": _GET,
    "/taskmanagers/:taskmanagerid/metrics": _GET,
    "/taskmanagers/metrics": {**_AGGREGATE, "taskmanagers": _LIST},
    "/jobs/metrics": {**_AGGREGATE, "jobs": _LIST},
    "/jobs/:jobid/metrics": _GET,
    "/jobs/:jobid": {"mode": {"type": "string", "enum": ["cancel", "stop"]}},
    "/jobs/:jobid/exceptions": {"maxExceptions": _NUMBER, "failureLabelFilter": _LIST},
    "/jobs/:jobid/accumulators": {"includeSerializedValue": _BOOL},
    "/jobs/:jobid/rescaling": {"parallelism": _NUMBER},
    "/jobs/:jobid/vertices/:vertexid/metrics": _GET,
    "/jobs/:jobid/vertices/:vertexid/flamegraph": {"type": _TEXT, "subtaskindex": _NUMBER},
    "/jobs/:jobid/vertices/:vertexid/subtasks/metrics": {**_AGGREGATE, "subtasks": _LIST},
    "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/metrics": _GET,
    "/jars/:jarid/plan": _PROGRAM,
    "/jars/:jarid/run": _RUN,
    "/jars/:jarid/run-application": _RUN,
}

_CLAIM_MODE: JsonObject = {"type": ["string", "null"], "enum": ["CLAIM", "NO_CLAIM", "LEGACY", None]}
_RUN_BODY: Mapping[str, JsonObject] = {
    "entryClass": _MAYBE_TEXT,
    "programArgsList": {"type": ["array", "null"], "items": _TEXT},
    "programArgs": _MAYBE_TEXT,
    "parallelism": {
        "type": ["integer", "string", "null"],
        "minimum": 1,
        "maximum": 32_768,
        "pattern": "^[1-9][0-9]{0,3}$",
    },
    "jobId": _TRIGGER,
    "applicationId": _TRIGGER,
    "allowNonRestoredState": {"type": ["boolean", "null"]},
    "savepointPath": _MAYBE_TEXT,
    "restoreMode": _CLAIM_MODE,
    "claimMode": _CLAIM_MODE,
    "flinkConfiguration": {"type": ["object", "null"], "additionalProperties": _TEXT},
}
BODIES: Mapping[tuple[str, str], Mapping[str, JsonObject]] = {
    ("POST", "/jobs/:jobid/checkpoints"): {
        "checkpointType": {"type": ["string", "null"], "enum": ["CONFIGURED", "FULL", "INCREMENTAL", None]},
        "triggerId": _TRIGGER,
    },
    ("POST", "/jobs/:jobid/savepoints"): {
        "target-directory": _MAYBE_TEXT,
        "cancel-job": _BOOL,
        "formatType": _FORMAT,
        "triggerId": _TRIGGER,
    },
    ("POST", "/jobs/:jobid/stop"): {
        "targetDirectory": _MAYBE_TEXT,
        "drain": _BOOL,
        "formatType": _FORMAT,
        "triggerId": _TRIGGER,
    },
    ("POST", "/savepoint-disposal"): {"savepoint-path": _TEXT, "triggerId": _TRIGGER},
    ("PATCH", "/jobs/:jobid/clientHeartbeat"): {"expiredTimestamp": _NUMBER},
    ("POST", "/jars/:jarid/plan"): _RUN_BODY,
    ("POST", "/jars/:jarid/run"): _RUN_BODY,
    ("POST", "/jars/:jarid/run-application"): _RUN_BODY,
}
_ERROR: JsonObject = {
    "type": "object",
    "properties": {"errors": {"type": "array", "items": _TEXT}},
    "required": ["errors"],
    "additionalProperties": False,
}


class Description:
    """Answers ``/openapi.json``."""

    def __init__(self) -> None:
        self._document: JsonObject = {}

    def routes(self) -> list[Route]:
        return [reads("/openapi.json", lambda _: self._document)]

    def describe(self, routes: Iterable[Route]) -> None:
        self._document = document(routes)


def document(routes: Iterable[Route]) -> JsonObject:
    paths: dict[str, JsonObject] = {}
    for route in routes:
        paths.setdefault(_PARAMETER.sub(r"{\1}", route.pattern), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tidegate: Flink's REST API",
            "version": f"v1/{VERSION}",
            "description": "All paths are there with and without /v1 in front.",
        },
        "servers": [{"url": "/v1"}, {"url": "/"}],
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": {"Errors": _ERROR}},
    }


def _operation(route: Route) -> JsonObject:
    names = _PARAMETER.findall(route.pattern)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": PATH_SCHEMAS.get(name, _TEXT)} for name in names
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in QUERIES.get(route.pattern, {}).items()
    ]
    found: JsonObject = {"operationId": f"{route.method.lower()}{route.pattern}", "parameters": parameters}
    body = _body(route)
    if body is not None:
        found["requestBody"] = {"required": False, "content": body}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Errors"}}}
    found["responses"] = {
        str(route.status): {"description": "As in Flink's API.", "content": _contents(route)},
        "default": {"description": "What is wrong.", "content": error},
    }
    return found


def _body(route: Route) -> JsonObject | None:
    if route.uploads:
        schema: JsonObject = {"type": "object", "properties": {"jarfile": {"type": "string", "format": "binary"}}}
        return {"multipart/form-data": {"schema": schema}}
    fields = BODIES.get((route.method, route.pattern))
    if fields is None:
        return None
    schema = {"type": "object", "properties": dict(fields)}
    return {"application/json": {"schema": schema}}


def _contents(route: Route) -> JsonObject:
    return {"text/plain" if route.is_text else "application/json": {"schema": {}}}
