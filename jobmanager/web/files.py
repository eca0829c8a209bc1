"""Serves files of a page over HTTP, found by their whole names in a list made at start, so that no path leads elsewhere."""

from __future__ import annotations

import mimetypes
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import xxhash
from aiohttp import web

from tidegate.jobmanager.rest.http.timeouts import Response
from tidegate.model.errors import ConfigurationError

INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=UTF-8",
    ".js": "text/javascript; charset=UTF-8",
    ".css": "text/css; charset=UTF-8",
    ".json": "application/json; charset=UTF-8",
    ".svg": "image/svg+xml",
}
_JAR_FOLDER = "web/"
"""The folder of the dashboard in Flink's distribution."""


class StaticFiles(Protocol):
    """A set of files; ``read`` takes one of ``names``."""

    names: frozenset[str]

    def read(self, name: str) -> bytes: ...


class FolderFiles:
    """All regular files below a folder; links are left out."""

    def __init__(self, folder: Path) -> None:
        found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        self._paths = {path.relative_to(folder).as_posix(): path for path in found}
        self.names = frozenset(self._paths)

    def read(self, name: str) -> bytes:
        return self._paths[name].read_bytes()


class JarFiles:
    """The files below ``web/`` in a jar."""

    def __init__(self, jar: Path) -> None:
        self._archive = zipfile.ZipFile(jar)
        names = (name for name in self._archive.namelist() if name.startswith(_JAR_FOLDER) and not name.endswith("/"))
        self.names = frozenset(name.removeprefix(_JAR_FOLDER) for name in names)

    def read(self, name: str) -> bytes:
        return self._archive.read(_JAR_FOLDER + name)


def open_files(path: Path, key: str) -> StaticFiles:
    """Opens the files of a folder or of a jar. Raises ``ConfigurationError`` when it has no index page; ``key`` names
    the option.
    """
    try:
        files: StaticFiles = JarFiles(path) if path.is_file() else FolderFiles(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise ConfigurationError(f"{key}: cannot read {path}: {error}") from None
    if INDEX not in files.names:
        raise ConfigurationError(
            f"{key}: there is no {INDEX} in {path}; name Flink's web folder, or its flink-dist jar"
        )
    return files


class FileAnswers:
    """Serves files with an entity tag: 304 when the tag of the request matches. ``keep``: they stay in memory."""

    def __init__(self, files: StaticFiles, headers: Mapping[str, str], *, keep: bool) -> None:
        self._files = files
        self._headers = {"cache-control": "no-cache", "x-content-type-options": "nosniff", **headers}
        self._kept = {name: files.read(name) for name in files.names} if keep else {}

    def has(self, name: str) -> bool:
        return name in self._files.names

    def answer(self, request: web.Request, name: str) -> web.Response:
        """Answers a request with the file ``name``, which must exist."""
        body = self._kept.get(name)
        if body is None:
            body = self._files.read(name)
        tag = f'"{xxhash.xxh3_64_hexdigest(body)}"'
        headers = {**self._headers, "etag": tag, "content-type": _type_of(name)}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        return Response(body=body, headers=headers)


def _type_of(name: str) -> str:
    return _TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
