"""Errors of the REST API: a status and an object with the one key ``errors`` (Flink: ``ErrorResponseBody.java``)."""

from __future__ import annotations


class RestError(Exception):
    """An error answer with this HTTP status; each message is one element of ``errors``."""

    def __init__(self, status: int, *messages: str) -> None:
        super().__init__(*messages)
        self.status = status
        self.messages = messages


def bad_request(message: str) -> RestError:
    return RestError(400, message)


def not_found(message: str) -> RestError:
    return RestError(404, message)


def server_side(message: str) -> RestError:
    """Returns Flink's answer for an unhandled exception: 500 with two elements."""
    return RestError(
        500, "Internal server error.", f"<Exception on server side:\n{message}\nEnd of exception on server side>"
    )


def not_available(what: str) -> RestError:
    """Returns 501 for a path of Flink's API that is not supported here."""
    return RestError(501, f"tidegate does not have this: {what}")
