"""A schema registry over HTTP: schemas by id, subjects with their versions, references."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Version:
    """A schema under a subject. ``references``: name, subject and version of each."""

    subject: str
    number: int
    schema_id: int
    schema: str
    kind: str
    references: tuple[tuple[str, str, int], ...]

    def shown(self) -> dict[str, Any]:
        about: dict[str, Any] = {"subject": self.subject, "version": self.number, "id": self.schema_id}
        about["schema"] = self.schema
        if self.kind != "AVRO":
            about["schemaType"] = self.kind
        if self.references:
            names = ("name", "subject", "version")
            about["references"] = [dict(zip(names, one, strict=True)) for one in self.references]
        return about


class SchemaRegistryServer(ThreadingHTTPServer):
    """Ids count from 1; the same schema under the same subject has the same."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.versions: list[Version] = []
        self.authorizations: list[str | None] = []
        """The header of each request."""

    def register(
        self, schema: Any, subject: str = "s", kind: str = "AVRO", references: tuple[tuple[str, str, int], ...] = ()
    ) -> int:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        for one in self.versions:
            if (one.subject, one.schema) == (subject, text):
                return one.schema_id
        number = 1 + sum(one.subject == subject for one in self.versions)
        self.versions.append(Version(subject, number, len(self.versions) + 1, text, kind, references))
        return len(self.versions)

    def found(self, parts: list[str]) -> Version | None:
        match parts:
            case ["schemas", "ids", schema_id]:
                return next((one for one in self.versions if one.schema_id == int(schema_id)), None)
            case ["subjects", subject, "versions", version]:
                of = [one for one in self.versions if one.subject == subject]
                return next((one for one in of[::-1] if version in ("latest", str(one.number))), None)
        return None


class _Handler(BaseHTTPRequestHandler):
    server: SchemaRegistryServer

    def do_GET(self) -> None:
        found = self.server.found(self.path.split("?")[0].strip("/").split("/"))
        if found is None:
            self._answer(404, {"error_code": 40403, "message": "Schema not found"})
        else:
            self._answer(200, found.shown())

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        subject = self.path.split("?")[0].strip("/").split("/")[1]
        self._answer(200, {"id": self.server.register(told["schema"], subject)})

    def _answer(self, status: int, content: Any) -> None:
        self.server.authorizations.append(self.headers["Authorization"])
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def schema_registry() -> Iterator[SchemaRegistryServer]:
    """A registry without schemas, for as long as the block lasts."""
    with SchemaRegistryServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)
