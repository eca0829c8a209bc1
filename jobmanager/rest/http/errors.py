"""Errors of the REST API: a status and an object with the one key ``errors`` (Flink: ``ErrorResponseBody.java``)."""

from __future__ import annotations


class RestError(Exception):
    """An answer with this HTTP status; each message is one element of ``errors``."""

    def __init__(self, status: int, *messages: str) -> None:
        super().__init__(*messages)
        self.status = status
        self.messages = messages


def bad_request(message: str) -> RestError:
    return RestError(400, message)


def not_found(message: str) -> RestError:
    return RestError(404, message)


def server_side(message: str) -> RestError:
    """Where Flink lets an exception through: 500 with two elements."""
    return RestError(
        500, "Internal server error.", f"<Exception on server side:\n{message}\nEnd of exception on server side>"
    )


def not_available(what: str) -> RestError:
    """A path of Flink's that nothing here can answer truly."""
    return RestError(501, f"tidegate does not have this: {what}")
