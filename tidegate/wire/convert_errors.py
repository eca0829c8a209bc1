"""Converts errors: ``ErrorInfo`` to ``pb.Error`` and back, and to the gRPC status that carries an error where the answer has no field for one.

A status carries the whole error as bytes in the trailing metadata ``tidegate-error-bin``; its code is only for tools
that know nothing of ours. gRPC itself is not imported here: codes are the numbers of the protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import TypeVar, cast

from google.protobuf.message import DecodeError

from tidegate.model.errors import Domain, ErrorInfo, InternalError, TidegateError, Unreachable, VersionMismatch
from tidegate.model.ids import AttemptId, parse_attempt_id
from tidegate.pb import common_pb2 as pb

ERROR_METADATA = "tidegate-error-bin"

_E = TypeVar("_E", bound=Enum)

_STATUS_BY_CODE = {
    "misuse": 3,
    "invalid-job": 3,
    "configuration": 3,
    "unknown-job": 5,
    "not-permitted": 7,
    "unknown-attempt": 5,
    "no-resource-available": 8,
    "version-mismatch": 9,
    "fenced": 10,
    "unreachable": 14,
    "corrupt-data": 15,
    "not-authenticated": 16,
}
_STATUS_BY_DOMAIN = {"user": 3, "external": 14, "internal": 13}

_UNREACHED = frozenset({1, 4, 14})
"""The gRPC status numbers CANCELLED, DEADLINE_EXCEEDED and UNAVAILABLE, after which the peer may never have received the call."""


def error_to_pb(error: ErrorInfo) -> pb.Error:
    """Converts an error to a message."""
    return pb.Error(
        code=error.code,
        domain=error.domain,
        message=error.message,
        retriable=error.retriable,
        details=error.details,
        origin=error.origin,
        kept_failure=error.kept_failure,
    )


def error_from_pb(message: pb.Error) -> ErrorInfo:
    """Converts a message to an error. An unknown domain becomes ``internal``."""
    domain = message.domain if message.domain in ("user", "external", "internal") else "internal"
    return ErrorInfo(
        message.code,
        cast("Domain", domain),
        message.message,
        message.retriable,
        message.details,
        message.origin,
        message.kept_failure,
    )


def optional_error_to_pb(error: ErrorInfo | None) -> pb.Error | None:
    return None if error is None else error_to_pb(error)


def ack_of(error: ErrorInfo | BaseException | None = None) -> pb.Ack:
    """Returns the usual answer of a call: empty for success."""
    info = ErrorInfo.of(error) if isinstance(error, BaseException) else error
    return pb.Ack(error=optional_error_to_pb(info))


def error_of_ack(message: pb.Ack) -> ErrorInfo | None:
    return error_from_pb(message.error) if message.HasField("error") else None


def status_of_error(error: ErrorInfo) -> tuple[int, str, tuple[tuple[str, bytes], ...]]:
    """Returns the gRPC status number of an error, its text, and the trailing metadata with the whole error."""
    number = _STATUS_BY_CODE.get(error.code, _STATUS_BY_DOMAIN[error.domain])
    return number, error.message, ((ERROR_METADATA, error_to_pb(error).SerializeToString()),)


def error_of_status(
    number: int, text: str, metadata: Iterable[tuple[str, str | bytes]] | None, peer: str = ""
) -> TidegateError:
    """Returns the error of a gRPC status: the carried one if there is one, else ``Unreachable`` for a call that may not have arrived and
    ``InternalError`` for every other."""
    for key, value in metadata or ():
        if key == ERROR_METADATA and isinstance(value, bytes):
            try:
                return error_from_pb(pb.Error.FromString(value)).to_exception()
            except DecodeError:
                break
    place = f" {peer}" if peer else ""
    if number in _UNREACHED:
        return Unreachable(f"cannot reach{place}: {text or 'no answer'}")
    if number == 12:
        return VersionMismatch(f"the peer{place} does not know this call; is it another version of tidegate?")
    hint = "; set tidegate.rpc.max-message-size for all processes" if number == 8 and "larger than max" in text else ""
    return InternalError(f"call to{place or ' a peer'} failed: {text}{hint}")


def enum_from_text(kind: type[_E], text: str) -> _E:
    """Returns the member of a model enumeration with a value. Raises ``VersionMismatch`` when there is none."""
    try:
        return kind(text)
    except ValueError:
        raise VersionMismatch(
            f"a message holds the {kind.__name__} {text!r}, which this process does not know; install the same version of tidegate on both sides"
        ) from None


@lru_cache(maxsize=1 << 15)
def attempt_from_text(text: str) -> AttemptId:
    """Parses an attempt id, cached, since the same few arrive with every heartbeat and checkpoint. Raises ``InternalError`` for an invalid text."""
    try:
        return parse_attempt_id(text)
    except ValueError as error:
        raise InternalError(f"another process sent the id of an attempt that cannot be read: {error}") from None
