"""One request as handlers see it: path parameters, query, JSON body. All texts are checked here; a bad one is 400."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from tidegate.jobmanager.rest.http.bodies import Upload
from tidegate.jobmanager.rest.http.errors import RestError, bad_request
from tidegate.model.ids import JobId, VertexId, parse_job_id
from tidegate.model.values import Json, JsonObject

E = TypeVar("E", bound=Enum)

_NUMBER_DIGITS = 18
"""The most digits of a number: as many as always fit Java's long."""


@dataclass(frozen=True, slots=True)
class RestRequest:
    """A parsed request.

    ``base_url``: scheme and host under which the client reached us. ``query``: the first value of each name.
    ``upload``: of routes that take a file, which then have no ``body``.
    """

    method: str
    path: str
    parameters: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    base_url: str = ""
    upload: Upload | None = None

    def job_id(self, name: str = "jobid") -> JobId:
        try:
            return parse_job_id(self.parameters[name])
        except ValueError as error:
            raise bad_request(f"Cannot resolve path parameter ({name}): {error}") from None

    def vertex_id(self) -> VertexId:
        return VertexId(self.hex_id("vertexid"))

    def hex_id(self, name: str) -> str:
        """Returns a path parameter that is an id of 32 hex digits. Raises ``RestError`` 400."""
        try:
            return str(parse_job_id(self.parameters[name]))
        except ValueError:
            raise bad_request(_bad_parameter(name, self.parameters[name], "32 hex digits")) from None

    def number(self, name: str) -> int:
        """Returns a path parameter that is a number. A negative one is no syntax error: nothing has that number."""
        text = self.parameters[name]
        if _is_number(text.removeprefix("-")):
            return int(text)
        if not _is_number(text):
            raise bad_request(_bad_parameter(name, text, "a number"))
        return int(text)

    def query_number(self, name: str, default: int) -> int:
        text = self.query.get(name)
        if text is None:
            return default
        if not _is_number(text):
            raise bad_query(name, text, "a number")
        return int(text)

    def first_number(self, name: str, default: int) -> int:
        """Returns the first number of a query parameter that Flink accepts as a list, but of which it uses one."""
        numbers = self.listed(name)
        if numbers is None:
            return self.query_number(name, default)
        for text in numbers:
            if not _is_number(text):
                raise bad_query(name, text, "a number")
        return int(numbers[0])

    def listed(self, name: str) -> list[str] | None:
        """Returns a query parameter split at commas; ``None`` when it is absent or empty."""
        text = self.query.get(name, "")
        return [part for part in text.split(",") if part] or None

    def json_object(self) -> JsonObject:
        """Returns the body as a JSON object; an empty body is ``{}``. Raises ``RestError`` 400. Unknown fields are ignored, as by Flink."""
        if not self.body.strip():
            return {}
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise bad_request(f"Request did not match expected format: {self.method} {self.path} takes a JSON object.")
        return found


def is_job_id(text: str) -> bool:
    try:
        parse_job_id(text)
    except ValueError:
        return False
    return True


def bad_query(name: str, text: str, expected: str) -> RestError:
    """Returns a 400 that says what a query parameter has to be."""
    return bad_request(f"Cannot resolve query parameter ({name}) from value {text!r}: expected {expected}.")


def text_of(body: Mapping[str, Json], name: str) -> str | None:
    """Returns a field that is a text or ``null``. Raises ``RestError`` 400."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise bad_request(f"Request did not match expected format: {name} has to be a string.")
    return value


def flag_of(body: Mapping[str, Json], name: str) -> bool:
    """Returns a boolean field; it may be given as a text, ``null`` is ``False``. Raises ``RestError`` 400."""
    value = body.get(name)
    if value in ("true", "false"):
        return bool(value == "true")
    if value is not None and not isinstance(value, bool):
        raise bad_request(f"Request did not match expected format: {name} has to be true or false.")
    return bool(value)


def choice_of(body: Mapping[str, Json], name: str, kind: type[E], default: E) -> E:
    """Returns a field that is one of an enumeration's names. Raises ``RestError`` 400."""
    text = text_of(body, name)
    if text is None:
        return default
    try:
        return kind[text]
    except KeyError:
        names = ", ".join(item.name for item in kind)
        raise bad_request(f"Request did not match expected format: {name} is {text!r}, not one of {names}.") from None


def trigger_id_of(body: Mapping[str, Json]) -> str | None:
    """Returns the ``triggerId`` that a client chose, if any. Raises ``RestError`` 400."""
    text = text_of(body, "triggerId")
    if text is None:
        return None
    try:
        return str(parse_job_id(text))
    except ValueError:
        raise bad_request(f"Request did not match expected format: triggerId {text!r} is not 32 hex digits.") from None


def subtask_ranges(request: RestRequest, name: str, parallelism: int) -> list[int]:
    """Returns the existing subtask indices of a parameter such as ``1,3,5-9``; all when it is absent. Raises ``RestError`` 400."""
    parts = request.listed(name)
    if parts is None:
        return list(range(parallelism))
    found: set[int] = set()
    for part in parts:
        first, dash, last = part.partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise bad_query(name, part, "a number, or a range such as 5-9")
        found.update(range(int(first), min(int(last) if dash else int(first), parallelism - 1) + 1))
    return sorted(index for index in found if index < parallelism)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS


def _bad_parameter(name: str, text: str, expected: str) -> str:
    return f"Cannot resolve path parameter ({name}) from value {text!r}: expected {expected}."
