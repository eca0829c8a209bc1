"""Failures for Flink's Java clients: JSON with a Java-serialized ``SerializedThrowable``.

The exception within it is ``null``, so that no class of a user is needed to read it. The layout
is that of the Java Object Serialization Specification (section 6.4) for ``org.apache.flink.util.SerializedThrowable``.
"""

from __future__ import annotations

import base64
import struct

from tidegate.model.errors import ErrorInfo
from tidegate.model.values import JsonObject

_STREAM = b"\xac\xed\x00\x05"
_OBJECT, _CLASS, _STRING, _LONG_STRING, _END, _NULL = b"\x73", b"\x72", b"\x74", b"\x7c", b"\x78", b"\x70"
_SERIALIZABLE, _WITH_WRITE_OBJECT = b"\x02", b"\x03"
_SHORT_STRING_MAX = 65_535
"""The longest text, in bytes, whose length Java's serialization writes in two bytes."""


def failure_cause(error: ErrorInfo) -> JsonObject:
    """Returns the value of ``failure-cause``, which Flink's command prints."""
    name, text = exception_name(error), stack_trace(error)
    return {
        "class": name,
        "stack-trace": text,
        "serialized-throwable": base64.b64encode(_serialized(name, f"{name}: {error.message}", text)).decode("ascii"),
    }


def exception_name(error: ErrorInfo) -> str:
    """Returns the qualified name of the exception's class (``tidegate.model.errors``)."""
    kind = type(error.to_exception())
    return f"{kind.__module__}.{kind.__qualname__}"


def stack_trace(error: ErrorInfo) -> str:
    """Returns an error as text: the message first, then the traceback, if there is one."""
    head = f"{exception_name(error)}: {error.message}"
    where = f"\n\tat {error.origin}" if error.origin else ""
    return f"{head}{where}\n{error.details}" if error.details else head + where


def _serialized(name: str, message: str, text: str) -> bytes:
    throwable = _class("java.lang.Throwable", 0xD5C635273977B8CB, _WITH_WRITE_OBJECT, _THROWABLE_FIELDS) + _NULL
    exception = _class("java.lang.Exception", 0xD0FD1F3E1A3B1CC4, _SERIALIZABLE, ())
    outer = _class("org.apache.flink.util.SerializedThrowable", 7284183123441947635, _SERIALIZABLE, _OUTER_FIELDS)
    # Data of the base class first: no cause, the message, no stack trace, no suppressed ones.
    base = _NULL + _string(message) + _NULL + _NULL + _END
    return _STREAM + _OBJECT + outer + exception + throwable + base + _string(text) + _string(name) + _NULL


_OUTER_FIELDS = (
    (b"L", "fullStringifiedStackTrace", "Ljava/lang/String;"),
    (b"L", "originalErrorClassName", "Ljava/lang/String;"),
    (b"[", "serializedException", "[B"),
)
_THROWABLE_FIELDS = (
    (b"L", "cause", "Ljava/lang/Throwable;"),
    (b"L", "detailMessage", "Ljava/lang/String;"),
    (b"[", "stackTrace", "[Ljava/lang/StackTraceElement;"),
    (b"L", "suppressedExceptions", "Ljava/util/List;"),
)


def _class(name: str, uid: int, flags: bytes, fields: tuple[tuple[bytes, str, str], ...]) -> bytes:
    """Encodes a class descriptor, up to the descriptor of its super class."""
    described = b"".join(kind + _utf(field) + _string(signature) for kind, field, signature in fields)
    return _CLASS + _utf(name) + struct.pack(">QB", uid, flags[0]) + struct.pack(">H", len(fields)) + described + _END


def _string(text: str) -> bytes:
    encoded = _modified_utf8(text)
    if len(encoded) <= _SHORT_STRING_MAX:
        return _STRING + struct.pack(">H", len(encoded)) + encoded
    return _LONG_STRING + struct.pack(">Q", len(encoded)) + encoded


def _utf(text: str) -> bytes:
    encoded = _modified_utf8(text)
    return struct.pack(">H", len(encoded)) + encoded


def _modified_utf8(text: str) -> bytes:
    """Encodes text in Java's modified UTF-8: NUL takes two bytes, and characters beyond 16 bits are pairs of surrogates, three bytes each."""
    units = text.encode("utf-16-be", "surrogatepass")
    encoded = bytearray()
    for (unit,) in struct.iter_unpack(">H", units):
        encoded += b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass")
    return bytes(encoded)
