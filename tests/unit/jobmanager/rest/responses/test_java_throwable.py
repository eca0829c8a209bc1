"""The serialised failure, read back by the rules of the Java Object Serialization Specification."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from tidegate.jobmanager.rest.responses.java_throwable import failure_cause
from tidegate.model.errors import ErrorInfo, StorageError


class Reader:
    """As much of the grammar as such a stream uses. Text is Java's modified UTF-8."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        self.at += count
        assert self.at <= len(self.data), "the stream ends too early"
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def text(self, form: str = ">H") -> str:
        raw = self.take(self.number(form)).replace(b"\xc0\x80", b"\x00")
        return raw.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass").decode("utf-16")

    def content(self) -> Any:
        match self.take(1):
            case b"\x70":
                return None
            case b"\x74":
                return self.text()
            case b"\x7c":
                return self.text(">Q")
            case b"\x73":
                return self.instance()
            case other:
                raise AssertionError(f"unexpected {other!r} at {self.at}")

    def described(self) -> list[tuple[str, int, int, list[str]]]:
        """The class and its super classes, the nearest first."""
        if self.take(1) == b"\x70":
            return []
        name, uid, flags = self.text(), self.number(">Q"), self.number(">B")
        fields = []
        for _ in range(self.number(">H")):
            assert self.take(1) in b"L["
            fields.append(self.text())
            self.content()
        assert self.take(1) == b"\x78", "end of the class annotation"
        return [(name, uid, flags, fields), *self.described()]

    def instance(self) -> dict[str, Any]:
        classes = self.described()
        values: dict[str, Any] = {"classes": [(name, uid) for name, uid, _, _ in classes]}
        for _, _, flags, fields in reversed(classes):
            values.update({field: self.content() for field in fields})
            if flags & 1:
                assert self.take(1) == b"\x78", "end of what writeObject wrote"
        return values


def read(error: ErrorInfo) -> dict[str, Any]:
    data = base64.b64decode(failure_cause(error)["serialized-throwable"])
    assert data[:4] == b"\xac\xed\x00\x05"
    reader = Reader(data[4:])
    found: dict[str, Any] = reader.content()
    assert reader.at == len(reader.data), "nothing may follow"
    return found


def test_flinks_class_with_our_text() -> None:
    found = read(ErrorInfo.of(StorageError("disk full", details="Traceback ..."), origin="map (1/2)"))
    assert found["classes"] == [
        ("org.apache.flink.util.SerializedThrowable", 7284183123441947635),
        ("java.lang.Exception", 0xD0FD1F3E1A3B1CC4),
        ("java.lang.Throwable", 0xD5C635273977B8CB),
    ]
    assert found["originalErrorClassName"] == "tidegate.model.errors.StorageError"
    assert found["detailMessage"] == "tidegate.model.errors.StorageError: disk full"
    assert found["fullStringifiedStackTrace"].endswith("disk full\n\tat map (1/2)\nTraceback ...")
    assert found["serializedException"] is None


@pytest.mark.parametrize("text", ["", "ä€", "\x00", "🌊", "x" * 70_000, "€" * 30_000])
def test_any_text(text: str) -> None:
    assert read(ErrorInfo("storage", "external", text))["detailMessage"].endswith(text)
